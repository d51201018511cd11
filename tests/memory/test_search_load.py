"""What the index points to, read in one statement or type by type."""

from memory.models import Fact
from memory.persona import ActorMemory, SubconsciousMemory
from memory.search.load import memories_load, texts_load
from memory.services.decisions import decision_record
from memory.services.episodes import episode_close, episode_open
from memory.services.events import events_record
from memory.services.facts import fact_invalidate, fact_learn
from memory.services.procedures import procedure_create


def stored(agent, by):
    """One or more of each type, with and without the parts that a text may be made of."""
    event = events_record(agent=agent, events=[{"kind": "user_input", "content": "said\nso"}], by=by)[0].event
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


def test_one_statement_gives_the_texts_that_the_loaders_give(ada, actor, django_assert_num_queries):
    keys = stored(ada, actor)
    whole = memories_load(ActorMemory(ada), keys)
    with django_assert_num_queries(1):
        short = texts_load(ActorMemory(ada), keys)
    assert {key: text for key, (text, _) in short.items()} == {key: text for key, (text, _) in whole.items()}
    assert set(short) == set(keys)
    assert short[keys[1]][1] == {"source": "a book"}
    assert texts_load(ActorMemory(ada), []) == {}


def test_it_shows_no_more_than_the_view(ada, bruno, actor, system):
    keys = stored(ada, actor)
    assert texts_load(ActorMemory(bruno), keys) == {}
    hidden = fact_learn(agent=ada, content="Below", by=system).fact
    Fact.objects.filter(pk=hidden.pk).update(persona="subconscious")
    key = ("fact", str(hidden.pk))
    assert texts_load(ActorMemory(ada), [key]) == {}
    assert texts_load(SubconsciousMemory(ada), [key])[key][0] == "Below"
    fact_invalidate(fact=Fact.objects.get(pk=keys[1][1]), by=system)
    assert keys[1] not in texts_load(ActorMemory(ada), keys)
