"""Documents: a JSON value under a key of a namespace. Each change is a new version."""

import hashlib
import json
from collections.abc import Sequence

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from identity.models import AgentOneToOneField, AuthorFields
from memory.models.base import ExpiringFields, Memory, MemoryQuerySet, ProjectKeyFields
from memory.models.sources import SourceFields
from memory.policy import MAX_DOCUMENT_KEY_CHARACTERS, MAX_NAMESPACE_CHARACTERS
from nousweb.lib import clock


class DocumentQuerySet(MemoryQuerySet["Document"]):
    def within(self, prefix: Sequence[str]) -> "DocumentQuerySet":
        """Documents whose namespace begins with these labels."""
        if not prefix:
            return self.all()
        # To hold the labels is what an index answers.
        return self.filter(namespace__contains=list(prefix), **{f"namespace__0_{len(prefix)}": list(prefix)})


class Document(ProjectKeyFields, ExpiringFields, SourceFields, AuthorFields, Memory):
    """One version of what is kept under a key; only its last version can be active, and none is ever rewritten.

    `address` stands for namespace, key, project, task and user in constraints. `index_fields` name the parts of the
    value that search reads: None for all of it, none of them for a document that is not searched. `text` is what they
    say. `first_created_at` is when the key was last given its first value. `ttl`: so many seconds after it was last
    written or refreshed it expires; None where its `expires_at` was given, or nothing.
    """

    namespace = ArrayField(models.CharField(max_length=MAX_NAMESPACE_CHARACTERS))
    key = models.CharField(max_length=MAX_DOCUMENT_KEY_CHARACTERS)
    address = models.CharField(max_length=64, editable=False)
    value = models.JSONField(default=dict)
    index_fields = ArrayField(models.CharField(max_length=200), null=True, blank=True)
    text = models.TextField(blank=True)
    version = models.PositiveIntegerField(default=1)
    superseded_by = AgentOneToOneField(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="supersedes"
    )
    first_created_at = models.DateTimeField(default=clock.now, editable=False)
    retired_by = models.CharField(max_length=200, blank=True)
    ttl = models.PositiveIntegerField(null=True, blank=True)

    objects = DocumentQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "persona", "address"], condition=Q(active=True), name="document_one_active"
            ),
            models.UniqueConstraint(fields=["agent", "persona", "address", "version"], name="document_versions"),
            models.CheckConstraint(
                condition=Q(active=True, retired_at__isnull=True, superseded_by__isnull=True)
                | Q(active=False, retired_at__isnull=False),
                name="document_active_until_retired",
            ),
        ]
        indexes = [
            GinIndex(fields=["namespace"], condition=Q(active=True), name="document_of_namespace"),
            models.Index(fields=["agent", "persona", "-created_at", "-id"], name="document_latest"),
            models.Index(
                fields=["agent", "persona", "project", "-created_at", "-id"],
                condition=~Q(project=""),
                name="document_of_project",
            ),
            models.Index(
                fields=["agent", "persona", "user", "-created_at", "-id"],
                condition=~Q(user=""),
                name="document_of_user",
            ),
            models.Index(fields=["expires_at"], condition=Q(expires_at__isnull=False), name="document_expiring"),
            GinIndex(fields=["source_ref"], condition=Q(source_ref__isnull=False), name="document_source"),
        ]

    def __str__(self) -> str:
        name = " / ".join((*self.namespace, self.key))
        return name if len(name) <= 80 else f"{name[:79]}…"

    @property
    def state(self) -> str:
        """Active, expired, superseded by a later version, or retired."""
        if self.active:
            return "expired" if self.has_expired else "active"
        return "superseded" if self.superseded_by_id else "retired"

    @property
    def has_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= clock.now()


def document_address(namespace: Sequence[str], key: str, project: str = "", task: str = "", user: str = "") -> str:
    """A digest of fixed length of a key, its namespace, project, task and user."""
    parts = [project, task, list(namespace), key, *([user] if user else [])]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
