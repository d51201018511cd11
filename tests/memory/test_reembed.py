"""Moving the index to another model: searches go on, a killed run costs nothing, and the switch is whole."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from identity.services.agents import agent_create
from memory.embedding import EmbeddingUnavailable
from memory.models import GLOBAL, EmbeddingModel, SearchItem
from memory.persona import ActorMemory
from memory.search.request import SearchRequest
from memory.search.search import search
from memory.services.facts import Precheck, fact_learn
from memory.services.search_index import reembedding
from memory.services.search_index.reembedding import reembed_cancel, reembed_continue, reembed_progress, reembed_start
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib.errors import Conflict, Invalid
from tests.factories import SYSTEM, make_facts, make_principal
from tests.memory.embedders import endpoint

COUNT = 70
"""More than one batch."""


@pytest.fixture
def served(db, settings):
    with endpoint() as running:
        running.dimension = 48
        settings.EMBED_BASE_URL = running.url
        running.name = f"openai:move-{running.url.rpartition(':')[2]}"
        yield running


@pytest.fixture(scope="module")
def ada(module_db):
    return agent_create(slug="ada", name="Ada", prompt="You are Ada.", by=SYSTEM)


@pytest.fixture(scope="module")
def actor(ada):
    return make_principal(ada)


@pytest.fixture(scope="module")
def lockers(ada, actor):
    """So many facts with their vectors, made once."""
    make_facts(ada, [f"The locker {number} holds the parcel {number * 3}." for number in range(COUNT)], actor)
    embed_pending_rows()


@pytest.fixture
def store(db, ada, lockers):
    return ActorMemory(ada)


def models():
    return set(SearchItem.objects.values_list("model", "status"))


LOCAL = "local:all-MiniLM-L6-v2-int8"


def asked(store):
    found = search(store, SearchRequest("which locker holds the parcel 33", GLOBAL, min_score=0, limit=5))
    assert found.degraded == ""
    return [(hit.content, hit.cosine) for hit in found.items]


def test_reembedding_moves_while_searches_go_on(served, store, system, ada, actor):
    before = asked(store)
    reembed_start(model=served.name, by=system)
    assert reembed_continue(seconds=0).done == 64
    assert models() == {(LOCAL, "ready")}
    assert asked(store) == before, "half way, everything is found as before"
    late = fact_learn(agent=ada, content="A fact that comes while the index moves.", by=actor).fact
    embed_pending_rows()
    assert SearchItem.objects.get(item_id=late.pk).model == LOCAL
    SearchItem.objects.filter(text__startswith="The locker 3 ").update(text="Changed meanwhile", next_model="")
    last = reembed_continue()
    assert (last.finished, last.done) == (True, COUNT + 1)
    assert models() == {(served.name, "ready")}
    assert EmbeddingModel.objects.get().name == served.name
    assert reembed_progress() is None
    after = asked(store)
    assert before != after
    assert any("parcel 33." in content for content, _ in after)
    assert not SearchItem.objects.exclude(next_model="").exists()


def test_reembedding_covers_what_is_written_last(served, store, system, ada, actor, monkeypatch):
    reembed_start(model=served.name, by=system)
    ordinary = reembedding._switch

    def late(building):
        fact_learn(agent=ada, content="The very last fact.", by=actor)
        return ordinary(building)

    monkeypatch.setattr(reembedding, "_switch", late)
    assert reembed_continue().finished
    assert SearchItem.objects.get(text="The very last fact.").status == "pending"
    assert embed_pending_rows() == 1
    assert models() == {(served.name, "ready")}


def test_reembedding_continues_after_a_crash(served, store, system):
    reembed_start(model=served.name, by=system)
    reembed_continue(seconds=0)
    served.broken = True
    with pytest.raises(EmbeddingUnavailable):
        reembed_continue()
    assert models() == {(LOCAL, "ready")}
    served.broken = False
    served.requests.clear()
    assert reembed_continue().finished
    assert sum(len(body["input"]) for body in served.requests) == COUNT - 64
    assert reembed_continue() is None


def test_reembedding_runs_once_at_a_time_and_can_be_stopped(served, store, system):
    reembed_start(model=served.name, by=system)
    assert reembed_start(model=served.name, by=system).name == served.name
    with pytest.raises(Conflict, match="is moving to"):
        reembed_start(model=f"{served.name}-other", by=system)
    with pytest.raises(Invalid, match="one of local"):
        reembed_start(model="magic", by=system)
    reembed_continue(seconds=0)
    assert reembed_cancel(by=system)
    assert not reembed_cancel(by=system)
    assert models() == {(LOCAL, "ready")}
    assert not SearchItem.objects.exclude(next_model="").exists()


def test_reembedding_index_keeps_its_model_when_settings_change(served, store, settings, ada, actor):
    settings.EMBEDDER, settings.EMBED_MODEL = served.name.split(":")
    fact_learn(agent=ada, content="One more.", by=actor, precheck=Precheck())
    assert embed_pending_rows() == 1
    assert models() == {(LOCAL, "ready")}
    out = StringIO()
    call_command("reembed", stdout=out, stderr=StringIO())
    assert f"The index answers with {served.name}." in out.getvalue()
    assert models() == {(served.name, "ready")}


def test_reembedding_command_reports_its_progress(served, store):
    out = StringIO()
    call_command("reembed", "--model", served.name, "--background", stdout=out)
    call_command("reembed", "--status", stdout=out)
    assert f"{served.name}: 0 of {COUNT}" in out.getvalue()
    call_command("reembed", "--cancel", stdout=out)
    call_command("reembed", "--status", stdout=out)
    assert "not moving" in out.getvalue()
    with pytest.raises(CommandError, match="one of local"):
        call_command("reembed", "--model", "magic")
    served.broken = True
    with pytest.raises(CommandError, match="503"):
        call_command("reembed", "--model", f"{served.name}-x")
