"""Who did something, as rows keep it."""

from django.db import models


class AuthorFields(models.Model):
    """Who did it, kept as text so that a record outlives the person or token."""

    class Kind(models.TextChoices):
        PERSON = "person", "Person"
        TOKEN = "token", "Agent"
        SYSTEM = "system", "System"

    author_kind = models.CharField(max_length=10, choices=Kind)
    author_id = models.CharField(max_length=100)
    author_name = models.CharField(max_length=200)

    class Meta:
        abstract = True
