"""What shares no more than stop words with the input, or only asks the same, is in no prompt."""

import pytest

from memory.models import SearchLanguage
from memory.services.events import events_record
from memory.services.facts import fact_learn
from memory.services.loops import derived_backfill
from memory.services.search_index.row_embedding import embed_pending_rows
from tests.context.test_seed_assemblies import FACTS
from tests.factories import make_events

LOOPS = {
    "holiday": ("Is it ready for you?", "Yes, the holiday plan for Oslo is ready, and you can book it."),
    "weather": ("And how is the weather for you in Oslo?", "It is raining and 12 degrees."),
    "billing": ("What do you think about the billing of invoices?", "Invoices are billed monthly."),
    "parser": ("Please help me fix the parser.", "Fixed: empty lines were not handled."),
}
GERMAN = {
    "urlaub": ("Ist es für dich fertig?", "Ja, der Plan für den Urlaub in Oslo ist fertig."),
    "wetter": ("Und wie ist das Wetter bei dir?", "Es regnet bei 12 Grad."),
}
LAYERS = {"layers": ["long_term", "short_term"], "excluded_kinds": [], "min_importance": 0.0}


def remember(agent, by, loops):
    events_record(
        agent=agent,
        events=[
            {"kind": kind, "content": content, "loop_id": loop}
            for loop, texts in loops.items()
            for kind, content in zip(("user_input", "actor_output"), texts, strict=False)
        ],
        by=by,
    )
    derived_backfill()
    embed_pending_rows()


@pytest.fixture
def shown(api, ada, actor_token):
    """The memories in the prompt for an input, by type."""

    def ask(text):
        asked = {"session_id": "s", "input": text, "explain": True, "profile_override": LAYERS}
        body = api.as_token(actor_token).post("/context", asked).json()
        included = [one for one in body["candidates"] if one["verdict"] == "included"]
        return {kind: sorted(one["id"] for one in included if one["type"] == kind) for kind in ("loop", "event")}

    return ask


@pytest.mark.parametrize(
    "text", ["is it for you", "and you", "and what about them?", "so what do you think", "tell me about it"]
)
def test_stop_words_bring_neither_loops_nor_events(ada, actor, shown, text):
    remember(ada, actor, LOOPS)
    assert shown(text) == {"loop": [], "event": []}


@pytest.mark.parametrize(
    ("text", "loop"),
    [("how is the weather in Oslo", "weather"), ("is the parser fixed", "parser"), ("billing of invoices", "billing")],
)
def test_shared_topics_bring_their_loop(ada, actor, shown, text, loop):
    remember(ada, actor, LOOPS)
    assert shown(text)["loop"] == [loop]


def test_stop_words_are_those_of_the_agents_language(ada, actor, shown):
    SearchLanguage.objects.update_or_create(agent=ada, defaults={"dictionary": "german"})
    remember(ada, actor, GERMAN)
    assert shown("ist es für dich") == shown("und du?") == {"loop": [], "event": []}
    assert shown("Wie ist das Wetter")["loop"] == ["wetter"]


def test_the_same_question_of_before_is_no_memory_of_its_answer(ada, actor, shown):
    asked = "When does the ledger export run?"
    remember(ada, actor, {"before": (asked,), "again": (f"{asked} ",)})
    assert shown(asked) == shown("when is the ledger export run?") == {"loop": [], "event": []}
    [answer] = make_events(ada, actor, "The ledger export runs at nine.", kind="actor_output", loop_id="later")
    embed_pending_rows()
    assert shown(asked)["event"] == [str(answer.pk)]


def test_a_question_with_its_answer_is_a_memory(ada, actor, shown):
    asked = "When does the ledger export run?"
    remember(ada, actor, {"before": (asked, "The ledger export runs at nine.")})
    assert shown(asked)["loop"] == ["before"]


def test_a_close_memory_lifts_no_unrelated_one(api, ada, actor, system, actor_token):
    """Whatever the best hit is, each item needs evidence of its own."""
    facts = [fact_learn(agent=ada, subject=subject, content=content, by=system).fact for subject, content in FACTS]
    remember(ada, actor, {"rain": ("Tell me about the weather in Oslo.", "The weather in Oslo is wet and windy.")})
    asked = {"session_id": "s", "input": "tell me about weather", "explain": True, "profile_override": LAYERS}
    body = api.as_token(actor_token).post("/context", asked).json()
    found = {one["id"]: one for one in body["candidates"]}
    told = {one["id"] for one in found.values() if one["verdict"] == "included"}
    assert told
    assert told.isdisjoint(str(fact.pk) for fact in facts)
    assert all(found[key]["relevance"] < 0.25 for fact in facts if (key := str(fact.pk)) in found)
