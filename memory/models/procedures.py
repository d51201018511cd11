"""Procedures: steps to do something, with their record of success."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from memory.models.base import Memory, ProjectKeyFields


class Procedure(ProjectKeyFields, Memory):
    """A way of doing something, with the record of how often it helped."""

    name = models.CharField(max_length=200)
    domain = models.CharField(max_length=50, blank=True)
    description = models.TextField(blank=True)
    steps = ArrayField(models.TextField(), default=list, blank=True)
    activation_count = models.PositiveIntegerField(default=0)
    success_count = models.PositiveIntegerField(default=0)
    failure_count = models.PositiveIntegerField(default=0)
    last_activated_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name", "id"]
        indexes = [
            models.Index(fields=["agent", "persona", "name", "id"]),
            models.Index(
                fields=["agent", "persona", "project", "name", "id"],
                condition=~Q(project=""),
                name="procedure_of_project",
            ),
            models.Index(
                fields=["agent", "persona", "user", "name", "id"],
                condition=~Q(user=""),
                name="procedure_of_user",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def effectiveness(self) -> float | None:
        """Share of successes among the uses whose outcome is known, 0 to 1; None before the first."""
        known = self.success_count + self.failure_count
        return self.success_count / known if known else None
