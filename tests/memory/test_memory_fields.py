"""Fields of memories: checked at one place, changed only where they may change, shown in one order."""

import pytest
from django.db.models import CharField, TextField

from memory.api.common import METADATA
from memory.api.decisions import DecisionIn, DecisionOut
from memory.api.documents import DocumentOut
from memory.api.episodes import EpisodeIn, EpisodeOut
from memory.api.facts import FactIn, FactOut
from memory.api.procedures import ProcedureIn, ProcedureOut
from memory.models import Decision, Episode, Fact, Procedure
from memory.services.decisions import decision_record, decision_update
from memory.services.memory_write import FIELDS, fields_checked
from nousweb.lib.errors import Invalid

ELSEWHERE = {"scope", "project", "task", "episode", "started_at", "ttl"}


@pytest.mark.parametrize(
    ("model", "schema"), [(Decision, DecisionIn), (Episode, EpisodeIn), (Fact, FactIn), (Procedure, ProcedureIn)]
)
def test_text_of_any_field_that_the_api_takes_is_bounded(model, schema):
    for name in schema.model_fields.keys() - ELSEWHERE:
        if isinstance(model._meta.get_field(name), CharField | TextField):
            with pytest.raises(Invalid) as refused:
                fields_checked(model, {name: "a" * 200_000})
            assert refused.value.field == name
        else:
            assert name in FIELDS


@pytest.mark.parametrize("schema", [DecisionOut, DocumentOut, EpisodeOut, FactOut, ProcedureOut])
def test_answer_shows_identity_then_content_then_metadata(schema):
    names = list(schema.model_fields)
    last = [name for name in METADATA if name != "active"]
    assert names[:2] == ["id", "persona"]
    assert [name for name in names if name in last] == last
    assert names.index("tags") > names.index("created_at" if "created_at" in names else "recorded_at")


@pytest.mark.django_db
def test_change_refuses_a_field_that_may_not_change(ada, actor):
    decision = decision_record(agent=ada, description="Sail at dawn.", by=actor)
    with pytest.raises(TypeError, match="description of a decision cannot be changed"):
        decision_update(decision=decision, by=actor, description="Sail at noon.")
