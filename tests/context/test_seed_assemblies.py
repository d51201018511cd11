"""The two assemblies that seed 008 expects, on one and the same store."""

import pytest

from identity.principal import Principal
from identity.services.proposals import identity_propose
from memory.models import MemoryReview
from memory.services.censors import censor_create
from memory.services.decisions import decision_record
from memory.services.episodes import episode_close, episode_open
from memory.services.facts import fact_learn
from memory.services.procedures import procedure_create
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.services.working_memory import working_set

CHARACTER = """\
You are Nous, a cognitive AI agent. You think before you act, you keep a record of what you decide and why, and you
learn from how it turns out. You remember the people you work with and adapt to how they like to work. You are direct
and warm; you say what you know, what you believe and what you only guess, and you keep the three apart.

When a question is open, you name what would settle it. When a plan is wrong, you say so before it is carried out, and
you offer a better one. You never hide a mistake of your own: you write down what led to it, so that it happens once.
You keep answers as short as they can be and as long as they must be. You ask before you guess at
what somebody wants."""

PROFILE = (
    ("person", "Tim", "Tim lives in Silver Spring, Maryland, USA"),
    ("preference", "Tim", "Tim prefers Celsius for temperature measurements."),
    ("person", "Tim", "Tim's local time zone is EST"),
)

DECISIONS = (
    "Use PostgreSQL with pgvector for all memory of Nous instead of a separate vector database: one "
    "transaction covers a memory and its vector, one backup holds both, and the memory search joins them "
    "without a second system to run.",
    "The memory search of Nous fuses vector and keyword scores instead of ranks. Fused ranks put the top "
    "hit at 0.95 for any query, so that no threshold meant anything; a fused score of PostgreSQL and "
    "pgvector can be held against one.",
    "The memory search of Nous keeps an exact scan in PostgreSQL for small agents and takes the HNSW "
    "index of pgvector from five thousand memories on, where an exact scan of the vectors would take "
    "longer than everything else together.",
    "Keep the cognitive layer of Nous free of language model calls; classification is pattern matching.",
)
FACTS = (
    (
        "Nous",
        "Nous stores decisions in the Brain and facts, episodes and procedures in the Heart, both in "
        "PostgreSQL; the memory search reads all of them with one statement, so that the scores of "
        "different types can be compared.",
    ),
    (
        "Nous",
        "The Nous memory search uses pgvector with an HNSW index and PostgreSQL full-text search, fuses "
        "the two scores, and drops what lies below 0.25 for facts and below 0.3 for decisions, episodes "
        "and procedures.",
    ),
    (
        "Nous",
        "Vectors of the Nous memory search are made by a small local model and kept in PostgreSQL as "
        "halfvec of pgvector with 384 numbers each; a write never waits for its vector, which the worker "
        "adds within seconds.",
    ),
    (
        "Nous",
        "Nous spec 006.1 describes the event bus and is planned.",
    ),
    (
        "CI",
        "The continuous integration of Nous runs the test suite on every push.",
    ),
)
EPISODES = (
    (
        "Memory search of Nous tuned",
        "The team compared vector and keyword memory search for Nous on PostgreSQL with pgvector. Vectors"
        " alone missed names and numbers, keywords alone missed everything said in other words. They "
        "fused the scores, set the thresholds by measurement on a held-out set, and wrote down the "
        "queries that still fail. The lesson: measure before you tune.",
    ),
    (
        "Event bus outage",
        "The event bus stopped for an hour after a deployment; the old version helped.",
    ),
)


@pytest.fixture
def nous(ada, system, charlie):
    """The seed's store: an identity, three facts about Tim, a censor, and a technical past."""
    person = Principal.of_user(charlie)
    identity_propose(agent=ada, section="character", content=CHARACTER, by=person)
    for category, subject, content in PROFILE:
        fact_learn(agent=ada, content=content, subject=subject, category=category, by=system)
    for subject, content in FACTS:
        fact_learn(agent=ada, content=content, subject=subject, category="technical", by=system)
    for description in DECISIONS:
        decision_record(agent=ada, description=description, confidence=0.8, by=system)
    for title, summary in EPISODES:
        episode = episode_open(agent=ada, title=title, by=system)
        episode_close(episode=episode, summary=summary, outcome="success", by=system)
    procedure_create(
        agent=ada,
        name="Debug the Nous memory search",
        description="Check the score of each memory search hit, then its embedding, then its terms.",
        by=system,
    )
    censor_create(
        agent=ada,
        pattern="api.key|token|password|secret",
        severity="block",
        reason="Secrets stay in the vault.",
        by=person,
    )
    # The facts bring their vectors with them.
    assert embed_pending_rows() == len(DECISIONS) + len(EPISODES) + 1
    return ada


def ask(api, token, text, **more):
    answer = api.as_token(token).post("/context", {"session_id": "s-1", "input": text, "explain": True, **more})
    assert answer.status_code == 200
    return answer.json()


def test_weather_query_gets_identity_and_profile_and_no_search_results(api, nous, actor_token):
    body = ask(api, actor_token, "tell me about weather")
    labels = [section["label"] for section in body["sections"]]
    assert labels == ["Identity", "User Profile", "Active Censors", "Current Frame", "Working Memory"]
    assert [item["type"] for item in body["sections"][1]["items"]] == ["fact"] * 3
    for _, subject, content in PROFILE:
        assert f"[{subject}] {content}\n" in body["system_prompt"]
    assert body["candidates"], "something was considered"
    assert {candidate["verdict"] for candidate in body["candidates"]} == {"below_threshold"}
    assert 280 <= body["tokens"] <= 420


def test_facts_that_an_agent_learns_about_a_person_open_no_review_and_contest_nothing(api, ada, actor_token):
    caller = api.as_token(actor_token)
    for category, subject, content in PROFILE:
        told = caller.post("/facts", {"content": content, "subject": subject, "category": category})
        assert told.status_code == 201
        assert told.json()["action"] == "stored"
    assert not MemoryReview.objects.exists()
    for question in ("tell me about weather", "how does the memory search of Nous work?"):
        prompt = ask(api, actor_token, question)["system_prompt"]
        assert "contested" not in prompt.lower()
        for _, subject, content in PROFILE:
            assert f"- [{subject}] {content}\n" in prompt


def test_technical_query_on_the_same_store_gets_all_sections(api, nous, actor_token):
    body = ask(api, actor_token, "how does the memory search of Nous work with PostgreSQL and pgvector?")
    labels = [section["label"] for section in body["sections"]]
    assert labels == [
        "Identity", "User Profile", "Active Censors", "Current Frame", "Working Memory",
        "Related Decisions", "Relevant Facts", "Known Procedures", "Past Episodes",
    ]  # fmt: skip
    prompt = body["system_prompt"]
    assert "HNSW index" in prompt
    assert "fuses vector and keyword" in prompt
    assert "Event bus outage" not in prompt
    assert "continuous integration" not in prompt
    assert 750 <= body["tokens"] <= 950


def test_working_memory_of_the_session_is_included(api, nous, actor_token, system):
    working_set(agent=nous, session_id="s-1", task="Plan the trip to Oslo", by=system)
    assert "Current task: Plan the trip to Oslo" in ask(api, actor_token, "tell me about weather")["system_prompt"]


def test_large_budget_finds_no_more_on_an_unknown_topic(api, nous, actor_token):
    body = ask(api, actor_token, "tell me about weather", budget=8_000, fill=True)
    assert {section["tier"] for section in body["sections"]} == {1, 2}


def test_filled_budget_takes_less_certain_memory_on_a_known_topic(api, nous, actor_token):
    question = "how does the memory search of Nous work with PostgreSQL and pgvector?"
    usual, large, filled = (
        {(one["type"], one["id"]) for one in body["candidates"] if one["verdict"] == "included"}
        for body in (
            ask(api, actor_token, question),
            ask(api, actor_token, question, budget=8_000),
            ask(api, actor_token, question, budget=8_000, fill=True),
        )
    )
    assert usual == large < filled
