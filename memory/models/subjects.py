"""Subjects of facts, with a name and aliases, and the history of their changes."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.urls import reverse

from identity.models import Agent, AgentForeignKey, AuthorFields
from memory.models.base import PersonaRow
from memory.policy import MAX_ATTRIBUTE_CHARACTERS
from memory.policy.attributes import Cardinality
from nousweb.lib import clock

MAX_SPELLING_CHARACTERS = 200


class SubjectQuerySet(models.QuerySet["Subject"]):
    def standing(self) -> "SubjectQuerySet":
        """Subjects that no other one has taken up."""
        return self.filter(merged_into__isnull=True)

    def called(self, key: str) -> "SubjectQuerySet":
        """Subjects that have a spelling with this key (`memory.subjects.name_similarity.key_of`)."""
        spelled = SubjectAlias.objects.filter(
            agent=OuterRef("agent"), persona=OuterRef("persona"), subject=OuterRef("pk"), key=key
        )
        return self.filter(Exists(spelled))


class Subject(PersonaRow):
    """A thing that facts of one persona of an agent are about, whatever it is called in them.

    `name` is how people see it called. What was merged into another subject stays as a row without spellings, so that
    the merge can be undone. `is_user` marks whom the agent serves; at most one subject of a persona.
    """

    class Kind(models.TextChoices):
        PERSON = "person", "Person"
        SYSTEM = "system", "System"
        PROJECT = "project", "Project"
        PLACE = "place", "Place"
        ORGANISATION = "organisation", "Organisation"
        OTHER = "other", "Other"

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="subjects")
    name = models.CharField(max_length=MAX_SPELLING_CHARACTERS)
    kind = models.CharField(max_length=20, choices=Kind, default=Kind.OTHER)
    is_user = models.BooleanField(default=False)
    merged_into = AgentForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="merged")
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = SubjectQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "persona"], condition=Q(is_user=True), name="subject_one_user_per_persona"
            ),
            models.CheckConstraint(
                condition=Q(merged_into__isnull=True) | ~Q(merged_into=models.F("id")), name="subject_not_into_itself"
            ),
        ]
        indexes = [models.Index(fields=["agent", "persona", "-created_at", "-id"], name="subject_listed")]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("agent_subject_thing", args=[self.agent.slug, self.pk])


class SubjectAlias(PersonaRow):
    """One spelling of a subject. Facts point to the spelling, so a merge or a split moves spellings and no facts.

    `key` is the spelling as it is compared, one of a kind for each persona; `meaning` the same with what certainly says
    the same written alike. `lexemes` are its words as search knows them by `dictionary`, `blocks` what it
    shares with spellings that may mean the same (memory/subjects/).
    """

    class Origin(models.TextChoices):
        SEEN = "seen", "Seen in a fact"
        GIVEN = "given", "Given by a person"

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="subject_aliases")
    subject = AgentForeignKey(Subject, on_delete=models.PROTECT, related_name="aliases")
    spelling = models.CharField(max_length=MAX_SPELLING_CHARACTERS)
    key = models.CharField(max_length=MAX_SPELLING_CHARACTERS)
    meaning = models.CharField(max_length=MAX_SPELLING_CHARACTERS)
    origin = models.CharField(max_length=10, choices=Origin, default=Origin.SEEN)
    dictionary = models.CharField(max_length=20, default="english", db_default="english")
    lexemes = models.GeneratedField(
        expression=models.Func(
            models.Func(models.F("dictionary"), models.F("spelling"), function="nous_terms"),
            function="tsvector_to_array",
        ),
        output_field=ArrayField(models.TextField()),
        db_persist=True,
    )
    blocks = ArrayField(models.BigIntegerField(), default=list)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "persona", "key"], name="subject_alias_key"),
        ]
        indexes = [
            models.Index(fields=["agent", "persona", "meaning"], name="subject_alias_meaning"),
            GinIndex(fields=["blocks"], name="subject_alias_blocks"),
        ]

    def __str__(self) -> str:
        return self.spelling


class SubjectChange(PersonaRow, AuthorFields):
    """One change of a subject, its author and reason. `details`: the data for undoing it, as JSON values."""

    class Action(models.TextChoices):
        CREATED = "created", "Created"
        ALIAS = "alias", "Spelling added"
        EDITED = "edited", "Changed"
        MERGED = "merged", "Merged"
        SPLIT = "split", "Split"

    UNDOABLE = (Action.MERGED, Action.SPLIT, Action.ALIAS, Action.EDITED)

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="subject_changes")
    subject = AgentForeignKey(Subject, on_delete=models.PROTECT, related_name="changes")
    other = AgentForeignKey(Subject, on_delete=models.PROTECT, null=True, related_name="changes_as_other")
    action = models.CharField(max_length=20, choices=Action)
    summary = models.TextField()
    reason = models.TextField(blank=True)
    details = models.JSONField(default=dict)
    at = models.DateTimeField(default=clock.now, editable=False)
    undone_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["agent", "subject", "-at"], name="subject_change_listed")]


class Attribute(PersonaRow):
    """How many values an attribute of the facts of one persona has at a time, as a person decided.

    `name` is that of `memory.policy.attributes.attribute_named`. Attributes that the shipped table knows have no row.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=MAX_ATTRIBUTE_CHARACTERS)
    cardinality = models.CharField(max_length=10, choices=[(one.value, one.value) for one in Cardinality if one])
    decided_by = models.CharField(max_length=200)
    decided_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["name", "id"]
        constraints = [models.UniqueConstraint(fields=["agent", "persona", "name"], name="attribute_name")]

    def __str__(self) -> str:
        return self.name.replace("_", " ")
