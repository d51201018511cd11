"""The texts of an identity over time."""

import uuid
from datetime import datetime

from django.db import models
from django.db.models import Q
from django.urls import reverse

from identity.models.agent_rows import AgentForeignKey, AgentRow
from identity.models.agents import Agent
from identity.models.author import AuthorFields
from identity.policy.sections import Section
from nousweb.lib import clock


class IdentityVersionQuerySet(models.QuerySet["IdentityVersion"]):
    def current(self) -> "IdentityVersionQuerySet":
        return self.filter(is_current=True)

    def in_prompt_order(self) -> "IdentityVersionQuerySet":
        order = [models.When(section=name, then=place) for place, name in enumerate(Section.values)]
        return self.order_by(models.Case(*order, output_field=models.IntegerField()), "-version")

    def as_of(self, moment: datetime) -> "IdentityVersionQuerySet":
        """The version of each section that was current at `moment`."""
        return self.filter(created_at__lte=moment).order_by("section", "-version").distinct("section")


class IdentityVersion(AgentRow, AuthorFields):
    """One text of one section, never edited: the database refuses any change but losing `is_current`."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="identity_versions")
    section = models.CharField(max_length=20, choices=Section)
    version = models.PositiveIntegerField()
    content = models.TextField(blank=True)
    is_current = models.BooleanField(default=True)
    previous = AgentForeignKey("self", on_delete=models.PROTECT, null=True, related_name="+")
    restores = AgentForeignKey("self", on_delete=models.PROTECT, null=True, related_name="restored_by")
    reason = models.TextField(blank=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = IdentityVersionQuerySet.as_manager()

    class Meta:
        ordering = ["agent", "section", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "section", "version"], name="one_row_per_version"),
            models.UniqueConstraint(
                fields=["agent", "section"], condition=Q(is_current=True), name="one_current_version"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_section_display()} version {self.version}"

    def get_absolute_url(self) -> str:
        return reverse("section_history", args=[self.agent.slug, self.section])

    @property
    def etag(self) -> str:
        """Validator of this section, also read back as the base of an edit."""
        return f'"{self.section}={self.version}"'
