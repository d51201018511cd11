"""Test data, created through the services: people, tokens, facts, events, proposals, reviews, contexts."""

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import connection, models

from context.engine.analysis.request import ContextRequest
from context.models import ContextRun
from context.services.context import context_assemble
from identity.models import Agent, ChangeProposal
from identity.principal import Principal
from identity.services.proposals import identity_propose
from identity.services.tokens import token_create
from memory.comparison.compare_facts import Comparison, Kind, Reason
from memory.models import Event, Fact, MemoryReview
from memory.services.events import events_record
from memory.services.facts import fact_learn
from memory.services.reviews.open_review import PairReviewDraft, pair_reviews_open
from memory.services.search_index.writer import index_put
from memory.types import entry_of
from nousweb.lib import clock
from tests.database import as_the_owner

PASSWORD = "correct horse battery staple"
EXPORT = "Why did the ledger export fail?"
SYSTEM = Principal.of_system("tests")


def make_person(name: str, *roles: str) -> User:
    """A person who logs in with PASSWORD and has these roles."""
    user = User.objects.create_user(name, f"{name}@example.org", PASSWORD)
    user.groups.add(*(Group.objects.get(name=role) for role in roles))
    return user


def make_token(agent: Agent, persona: str = "actor", *, name: str = "", **more: Any) -> str:
    """Secret of a new token of `agent`, with the default scopes unless `scopes` are given."""
    return token_create(agent=agent, persona=persona, name=name or persona, by=SYSTEM, **more)[1]


def make_principal(agent: Agent, persona: str = "actor", *, name: str = "", **more: Any) -> Principal:
    """The principal of a new token of `agent`, for services."""
    return Principal.of_token(token_create(agent=agent, persona=persona, name=name or persona, by=SYSTEM, **more)[0])


def make_proposal(
    agent: Agent, by: Principal, section: str = "values", content: str = "Truth first.", reason: str = "Because."
) -> ChangeProposal:
    """A pending change of an identity."""
    found = identity_propose(agent=agent, section=section, content=content, reason=reason, by=by, wait=True)
    assert found.proposal is not None
    return found.proposal


def make_fact(agent: Agent, content: str, by: Principal, **more: Any) -> Fact:
    """A technical fact that is important enough for every prompt that it is relevant to."""
    return fact_learn(agent=agent, content=content, by=by, **{"category": "technical", "importance": 0.8, **more}).fact


def make_facts(agent: Agent, contents: Iterable[str], by: Principal, **more: Any) -> list[Fact]:
    """Many facts without a subject as they would be learned if none was like another: nothing is compared."""
    fields: dict[str, Any] = {"agent": agent, "persona": by.persona, "endorsed": by.is_person}
    fields |= {"category": "technical", "importance": 0.8}
    # One moment after another, as they would come.
    facts = [Fact(**fields | {"content": content, "recorded_at": clock.now(), **more}) for content in contents]
    Fact.objects.bulk_create(facts)
    index_put([entry_of(fact) for fact in facts])
    return facts


def without_budget(agent: Agent) -> Agent:
    """An agent about whose facts people are asked whatever the attention budget."""
    Agent.objects.filter(pk=agent.pk).update(config=agent.config | {"attention": {"unlimited": True}})
    agent.refresh_from_db()
    return agent


def make_review(agent: Agent, by: Principal, old: str, new: str, subject: str = "Tim", **more: Any) -> MemoryReview:
    """The review of two facts that somebody takes for contradictory; both are stored."""
    facts = []
    for content in (old, new):
        result = fact_learn(agent=agent, content=content, subject=subject, by=by, **more)
        assert result.action == "stored"
        facts.append(result.fact)
    comparison = Comparison(Kind.DIFFERS, 0.9, 0.5, (Reason("value", old, new),))
    without_budget(agent)
    opened = pair_reviews_open([PairReviewDraft(*facts, comparison)], by=by)
    return MemoryReview.objects.select_related("old", "new", "censor").get(pk=opened[0].pk)


def pair_review(question: Any) -> MemoryReview:
    """The only pair that joined the review of an attribute, as a review of its own: so it is asked about where people
    verified one of the facts."""
    pair = MemoryReview.objects.filter(details__question=str(question))
    MemoryReview.objects.filter(pk=question).delete()
    (key,) = pair.values_list("pk", flat=True)
    MemoryReview.objects.filter(pk=key).update(status="pending", details={})
    return MemoryReview.objects.select_related("old", "new", "agent").get(pk=key)


def database_address() -> str:
    """The address of the tests' database, for another process."""
    given = connection.get_connection_params()
    port = f"&port={given['port']}" if given.get("port") else ""
    return f"postgresql://{given['user']}@/{given['dbname']}?host={given['host']}{port}"


def make_events(agent: Agent, by: Principal, *contents: str, kind: str = "user_input", **more: Any) -> list[Event]:
    """One recorded event for each of `contents`; `more` are fields of all of them, such as `loop_id`."""
    events = [{"kind": kind, "content": content, **more} for content in contents]
    return [each.event for each in events_record(agent=agent, events=events, by=by)]


def make_run(agent: Agent, by: Principal, text: str = EXPORT, session: str = "s", **more: Any) -> ContextRun:
    """A logged context for the input `text`."""
    found = context_assemble(agent=agent, request=ContextRequest(session, text, **more), by=by)
    return ContextRun.objects.get(pk=found.id)


def make_copies(row: models.Model, count: int, **changed: str) -> None:
    """Store `count` further rows like `row`, each with a key of its own; the database makes them from the stored row.

    `changed` gives fields that differ, as SQL in which `n` counts from 0.
    """
    meta = row._meta
    keyed = {meta.pk.name: "gen_random_uuid()"} if isinstance(meta.pk, models.UUIDField) else {}
    values = {
        field.column: (keyed | changed).get(field.name, f"original.{connection.ops.quote_name(field.column)}")
        for field in meta.concrete_fields
        if not field.generated and (field is not meta.pk or keyed)
    }
    table, key = connection.ops.quote_name(meta.db_table), connection.ops.quote_name(meta.pk.column)
    columns = ", ".join(map(connection.ops.quote_name, values))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({columns}) SELECT {', '.join(values.values())}"  # noqa: S608
            f" FROM {table} AS original, generate_series(0, %s - 1) AS n WHERE original.{key} = %s",
            [count, row.pk],
        )
        assert cursor.rowcount == count
    # As autovacuum would have done: without it, queries are planned for a table of a few rows. The product may not.
    with as_the_owner(), connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {table}")
