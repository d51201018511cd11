"""What people decided about attributes of subjects."""

import uuid

from django.db import models

from identity.models import Agent, AgentRow, Persona
from memory.policy import MAX_ATTRIBUTE_CHARACTERS
from memory.policy.attributes import Cardinality
from nousweb.lib import clock


class Attribute(AgentRow):
    """How many values an attribute of the facts of one persona has at a time, as a person decided.

    `name` is that of `memory.policy.attributes.attribute_named`. Attributes that the shipped table knows have no row.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona, default=Persona.ACTOR)
    name = models.CharField(max_length=MAX_ATTRIBUTE_CHARACTERS)
    cardinality = models.CharField(max_length=10, choices=[(one.value, one.value) for one in Cardinality if one])
    decided_by = models.CharField(max_length=200)
    decided_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["name", "id"]
        constraints = [models.UniqueConstraint(fields=["agent", "persona", "name"], name="attribute_name")]

    def __str__(self) -> str:
        return self.name.replace("_", " ")
