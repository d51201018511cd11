"""A small store of a person and a software project, as in the seeds, and questions with what answers them."""

from identity.models import Agent
from identity.principal import Principal
from memory.models import Decision, Episode, Fact, Procedure
from memory.services.facts import fact_learn
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.services.search_index.writer import index_put
from memory.types import entry_of

PROFILE = (
    ("Tim lives in Silver Spring, Maryland, USA.", "person"),
    ("Tim prefers Celsius for temperature measurements.", "preference"),
    ("Tim wants short answers without filler.", "preference"),
)
FACTS = (
    "The event bus uses an in-process asyncio queue with a dead letter list.",
    "Heart stores facts, episodes, procedures and censors in PostgreSQL.",
    "pgvector HNSW indexes are built with m=16 and ef_construction=64.",
    "The context engine assembles the system prompt within a token budget.",
    "Deployment runs with docker compose on a single host behind Caddy.",
    "The CI pipeline runs ruff, mypy and pytest on every pull request.",
    "Authentication uses bearer tokens that are hashed with SHA-256 at rest.",
    "Backups of the database are taken nightly and kept for thirty days.",
)
DECISIONS = (
    "Use PostgreSQL with pgvector instead of a separate vector database, to keep one store.",
    "Replace Redis pub/sub by the in-process event bus because there is only one node.",
)
EPISODES = (
    "Debugged a flaky websocket reconnect test; the cause was a missing await in the teardown.",
    "Designed the tiered context model and split identity from facts.",
)
PROCEDURES = (("Release", "Bump the version, tag the commit and push the tag; the workflow publishes the image."),)

UNRELATED = (
    "tell me about weather",
    "what's the weather like today?",
    "what should I cook for dinner tonight",
    "who won the world cup in 2018",
    "recommend a good science fiction novel",
    "how tall is Mount Everest",
    "write a poem about autumn leaves",
    "what is the capital of Mongolia",
    "symptoms of a vitamin D deficiency",
)
RELATED = {
    "how does the event bus work": "asyncio queue",
    "what did we decide about Redis": "Redis pub/sub",
    "why did the websocket test fail": "flaky websocket",
    "how do I release a new version": "Bump the version",
    "how are API tokens stored": "SHA-256",
    "which checks run in CI": "ruff, mypy",
    "how long do we keep database backups": "thirty days",
    "should we use a separate vector store?": "separate vector database",
    "implement the tiered context model in the context engine": "tiered context model",
}


def fill(agent: Agent, by: Principal) -> None:
    """Learn everything, and embed it with the real model."""
    for content, category in PROFILE:
        fact_learn(agent=agent, content=content, subject="Tim", category=category, by=by)
    for content in FACTS:
        fact_learn(agent=agent, content=content, category="technical", by=by)
    rows = [Decision.objects.create(agent=agent, description=text) for text in DECISIONS]
    rows += [Episode.objects.create(agent=agent, summary=text) for text in EPISODES]
    rows += [Procedure.objects.create(agent=agent, name=name, description=text) for name, text in PROCEDURES]
    index_put(entry_of(row) for row in rows)
    embed_pending_rows()
    assert Fact.objects.filter(agent=agent).count() == len(PROFILE) + len(FACTS)
