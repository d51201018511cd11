"""What the index points to, read in one statement or type by type."""

from memory.models import Fact, SearchItem
from memory.persona import ActorMemory, SubconsciousMemory
from memory.search.memory_loader import hits_load, memories_load
from memory.services.decisions import decision_record
from memory.services.episodes import episode_close, episode_open
from memory.services.facts import fact_invalidate, fact_learn
from memory.services.procedures import procedure_create
from tests.factories import make_events


def stored(agent, by):
    """One or more of each type, with and without the parts that a text may be made of."""
    event = make_events(agent, by, "said\nso")[0]
    fact = fact_learn(agent=agent, content="A fact", source="a book", by=by).fact
    told = episode_open(agent=agent, title="Told", by=by)
    episode_close(episode=told, summary="", outcome="success", by=by)
    summed = episode_open(agent=agent, title="Summed up", by=by)
    episode_close(episode=summed, summary="What happened", outcome="success", by=by)
    plain = procedure_create(agent=agent, name="Plain", by=by)
    steps = procedure_create(agent=agent, name="Steps", description="How", steps=["one", "two"], by=by)
    decision = decision_record(agent=agent, description="Decided", confidence=0.5, by=by)
    return [
        ("event", str(event.pk)),
        ("fact", str(fact.pk)),
        ("episode", str(told.pk)),
        ("episode", str(summed.pk)),
        ("procedure", str(plain.pk)),
        ("procedure", str(steps.pk)),
        ("decision", str(decision.pk)),
    ]


def loaded(view, keys, **more):
    """What `hits_load` gives, by type and id."""
    rows = SearchItem.objects.filter(item_id__in=[item_id for _, item_id in keys])
    hits = hits_load(view, dict(rows.values_list("pk", "item_type")), **more)
    return {(hit["type"], hit["id"]): hit for hit in hits.values()}


def test_memory_loader_one_statement_equals_the_loaders(ada, actor, django_assert_num_queries):
    keys = stored(ada, actor)
    whole = memories_load(ActorMemory(ada), keys)
    with django_assert_num_queries(2):
        found = loaded(ActorMemory(ada), keys)
    assert {key: (hit["content"], hit["metadata"], hit["trust"]) for key, hit in found.items()} == whole
    assert set(found) == set(keys)
    short = loaded(ActorMemory(ada), keys, metadata=False)
    assert {key: hit["content"] for key, hit in short.items()} == {key: text for key, (text, *_) in whole.items()}
    assert short[keys[1]]["metadata"] == {"source": "a book"}


def test_memory_loader_shows_no_more_than_the_view(ada, bruno, actor, system):
    keys = stored(ada, actor)
    assert loaded(ActorMemory(bruno), keys) == {}
    hidden = fact_learn(agent=ada, content="Below", by=system).fact
    for model, key in ((Fact, {"pk": hidden.pk}), (SearchItem, {"item_id": str(hidden.pk)})):
        model.objects.filter(**key).update(persona="subconscious")
    key = ("fact", str(hidden.pk))
    assert loaded(ActorMemory(ada), [key]) == {}
    assert loaded(SubconsciousMemory(ada), [key])[key]["content"] == "Below"
    fact_invalidate(fact=Fact.objects.get(pk=keys[1][1]), by=system)
    assert keys[1] not in loaded(ActorMemory(ada), keys)
