"""What the memory models share."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from identity.models import Agent, Persona
from nousweb.lib import clock
from nousweb.lib.constrained_types import MAX_KEY_CHARACTERS

UNIT_INTERVAL = [MinValueValidator(0.0), MaxValueValidator(1.0)]


class Scope(models.TextChoices):
    """How far a memory reaches: one task, one project, or everything the agent does."""

    TASK = "task", "Task"
    PROJECT = "project", "Project"
    GLOBAL = "global", "Global"


class ProjectKeyFields(models.Model):
    """What may belong to a project and a task, by the keys of its writer ("" for none); see `project_scope`."""

    project = models.CharField(max_length=MAX_KEY_CHARACTERS, blank=True, default="", db_default="")
    task = models.CharField(max_length=MAX_KEY_CHARACTERS, blank=True, default="", db_default="")

    class Meta:
        abstract = True


class Memory(models.Model):
    """A memory of one persona of one agent, with what search and selection need to know of it.

    `active` has one meaning: whether search and prompts may show it. `retired_at` says since when they may not; what
    came without its history has none.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="%(class)ss")
    persona = models.CharField(max_length=20, choices=Persona, default=Persona.ACTOR)
    scope = models.CharField(max_length=10, choices=Scope, default=Scope.GLOBAL)
    tags = ArrayField(models.CharField(max_length=50), default=list, blank=True)
    importance = models.FloatField(default=0.5, validators=UNIT_INTERVAL)
    active = models.BooleanField(default=True)
    retired_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    updated_at = models.DateTimeField(default=clock.now, editable=False)
    # A person wrote, changed, reviewed or closed it, and only people change it from then on.
    endorsed = models.BooleanField(default=False, editable=False)

    class Meta:
        abstract = True
