"""Each field that a writer may give is declared once, and a change takes only the fields that may change."""

import pytest

from memory.api.decisions import DecisionIn
from memory.api.episodes import EpisodeIn
from memory.api.facts import FactIn
from memory.api.procedures import ProcedureIn
from memory.services.decisions import decision_record, decision_update
from memory.services.memory_fields import FIELDS

KEYS = {"scope", "project", "task"}


@pytest.mark.parametrize("schema", [DecisionIn, EpisodeIn, FactIn, ProcedureIn])
def test_fields_of_the_api_are_declared_for_every_interface(schema):
    assert schema.model_fields.keys() - KEYS - {"episode", "started_at"} <= FIELDS.keys()


@pytest.mark.django_db
def test_change_refuses_a_field_that_may_not_change(ada, actor):
    decision = decision_record(agent=ada, description="Sail at dawn.", by=actor)
    with pytest.raises(TypeError, match="description of a decision cannot be changed"):
        decision_update(decision=decision, by=actor, description="Sail at noon.")
