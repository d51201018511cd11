"""What memories were read from: a page or a file, and the latest digest of it that is known."""

from typing import Any

from django.db import models
from django.db.models.functions import MD5

from identity.models import Agent, AgentRow
from memory.models.base import PersonaRow, user_key_field
from memory.policy import MAX_LOCATOR_CHARACTERS
from nousweb.lib.bounds import MAX_KEY_CHARACTERS

LOCATORS = ("url", "path")
"""By one of these names a source says where it is. It is a text that nothing here ever opens."""


class SourceFields(AgentRow):
    """`source_ref`: {"url" or "path", "sha256", "seen_at"} of what a memory was read from, or None.

    `source_changed_at`: since when the source is known to be another one; kept by services.sources.
    """

    source_ref = models.JSONField(null=True, blank=True)
    source_changed_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        abstract = True

    @property
    def source_locator(self) -> str:
        """The address or the path of the source; "" without one."""
        held: Any = self.source_ref if isinstance(self.source_ref, dict) else {}
        return next((str(held[name]) for name in LOCATORS if name in held), "")


class KnownSource(PersonaRow):
    """The latest digest of a source that memories of one persona, project and user were read from, or
    that was reported.

    `locator` is a URL or a path. `seen_at` is when it was last read, `changed_at` since when it has this digest; None
    while no other is known.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="known_sources")
    project = models.CharField(max_length=MAX_KEY_CHARACTERS, blank=True, default="", db_default="")
    user = user_key_field()
    locator = models.CharField(max_length=MAX_LOCATOR_CHARACTERS)
    sha256 = models.CharField(max_length=64)
    seen_at = models.DateTimeField()
    changed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            # An index holds no text of this length.
            models.UniqueConstraint("agent", "persona", "project", "user", MD5("locator"), name="source_known_once"),
        ]

    def __str__(self) -> str:
        return self.locator
