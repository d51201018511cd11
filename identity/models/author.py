"""The author of a row."""

from django.db import models


class AuthorFields(models.Model):
    """The author, stored as text so that a record outlives the person or token."""

    class Kind(models.TextChoices):
        PERSON = "person", "Person"
        TOKEN = "token", "Agent"
        SYSTEM = "system", "System"

    author_kind = models.CharField(max_length=10, choices=Kind)
    author_id = models.CharField(max_length=100)
    author_name = models.CharField(max_length=200)

    class Meta:
        abstract = True
