"""Erase a fact, a document, an event, everything about a subject, of a project or of a user, or a whole agent."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.apps import apps
from django.conf import settings
from django.db import connection, models, transaction
from django.db.models import Q

from identity.models import Agent, ApiToken, AuditEvent, Change, Persona
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_exclusive
from identity.services.change_feed import feed_change_draft, feed_changes_record
from memory.models import (
    Document,
    Event,
    Fact,
    ItemType,
    LoopSummary,
    SearchItem,
    SubjectAlias,
    WorkingMemory,
    key_check,
)
from memory.services.erasure.steps import (
    ERASE,
    OWNERS_TO_DELETE,
    Erasure,
    QuoteScan,
    Receipt,
    erasers_run,
    erasing,
    erasure_of,
    owner_erase,
    quoting_keys,
    reason_check,
    receipt_describe,
    rows_quoting,
    scan_tables,
    working_memory_erase,
)
from memory.services.facts.changes import facts_lock
from memory.services.loops import loop_renew
from memory.services.search_index.writer import index_remove
from memory.services.subjects.registry import alias_find
from memory.services.users import MANAGE
from nousweb.lib import Invalid, NotFound, clock, visible_text_check
from nousweb.lib.bounds import EVERYBODY
from nousweb.lib.transactions import sql_change


@erasing
def document_erase(*, document: Document, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    """Erase a document with all of its versions. Other memories that contain parts of it stay.

    `reason` is stored in the receipt, so it must not repeat the erased text. Raises NotAllowed, Invalid, or NotFound if
    the document no longer exists.
    """
    by.require(ERASE, document.agent)
    reason = reason_check(reason)
    quote_scan = scan_tables(document.agent, [], versions_of(document.agent, [document.pk]))
    agent = agent_lock_exclusive(document.agent)
    # Read again: a version may have been written before the agent was locked.
    versions = versions_of(agent, [document.pk])
    erasure = erasure_of(agent, [], versions, quote_scan=quote_scan)
    rows, quoting = _quotes_erase(erasure)
    return Receipt(documents_remove(versions, quoting=quoting, by=by, reason=reason, rows=rows)), erasure


def versions_of(agent: Agent, documents: Collection[UUID]) -> list[Document]:
    """All versions of these documents; each id may be that of any version. Raises NotFound."""
    named = Document.objects.filter(agent=agent, pk__in=documents)
    keys = dict(named.values_list("pk", "address"))
    if missing := set(documents) - keys.keys():
        raise NotFound(f"There is no such document: {min(map(str, missing))}.")
    found = Document.objects.filter(agent=agent, address__in=set(keys.values())).select_related("agent")
    wanted = set(named.values_list("persona", "address"))
    return [row for row in found.order_by("persona", "address", "version") if (row.persona, row.address) in wanted]


def documents_remove(
    versions: Sequence[Document],
    *,
    quoting: Sequence[int],
    by: Principal,
    reason: str,
    rows: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Delete whole documents of a locked agent, with a receipt for each; returns counts by table, with `rows` added."""
    chains: dict[tuple[str, str], list[Document]] = defaultdict(list)
    for version in versions:
        chains[version.persona, version.address].append(version)
    feed_changes_record(
        feed_change_draft("document.erased", row.agent, row.persona, "document", row.pk) for row in versions
    )
    total = Counter({} if chains else rows or {})
    for place, ((persona, _), chain) in enumerate(chains.items()):
        index_remove(chain[0].agent_id, persona, ItemType.DOCUMENT, [str(row.pk) for row in chain])
        last = chain[-1]
        entry = receipt_describe(
            by=by, action="document.erase", target=last, agent=last.agent, reason=reason, label="A document"
        )
        done = owner_erase(
            "nous_erase_documents(%s, %s::uuid[], %s::bigint[], %s::jsonb)",
            [last.agent_id, [row.pk for row in chain], list(quoting)],
            entry=entry,
            rows={**(dict(rows or {}) if place == 0 else {}), "searchitem": len(chain)},
        )
        total.update(done)
    return total


FACTS_CALL = "nous_erase_facts(%s, %s::uuid[], %s::bigint[], %s::jsonb)"
MIN_NAME_CHARACTERS = 3
"""Shorter aliases are not searched: they occur in too many texts."""
MAX_OFFERED = 200


@dataclass(frozen=True, slots=True)
class QuotingMemory:
    """A memory, of documents the last version. `quotes`: it quotes what is erased, a document in any version; else it
    only names the subject."""

    memory: Event | Fact | Document
    quotes: bool = True


def documents_quoting(
    agent: Agent, facts: Sequence[Fact], spellings: Iterable[str] = (), *, personas: Collection[str]
) -> list[QuotingMemory]:
    """Documents of which a version quotes one of the facts, then those that only contain one of `spellings`."""
    rows = Document.objects.filter(agent=agent, persona__in=personas)
    quoting = set(
        _document_keys(rows_quoting(Document, erasure_of(agent, facts)).filter(persona__in=personas)) if facts else ()
    )
    names = [
        rf"\y{re.escape(spelling)}\y" for spelling in dict.fromkeys(spellings) if len(spelling) >= MIN_NAME_CHARACTERS
    ]
    condition = "concat_ws(' ', namespace::text, key, text, value::text) ~* ANY(%s)"
    naming = set(_document_keys(rows.extra(where=[condition], params=[names])) if names else ())  # noqa: S610
    found = sorted(quoting | naming, key=lambda key: (key not in quoting, key))[:MAX_OFFERED]
    last = _last_versions(agent, personas, found)
    return [QuotingMemory(last[key], key in quoting) for key in found]


def memories_quoting(event: Event, *, personas: Collection[str], most: int | None = MAX_OFFERED) -> list[QuotingMemory]:
    """Other events, the facts, and the documents of which a version quotes the beginning of an event or a secret in it
    or, for facts, were learned from it; of each type the latest, `most` of them (all if it is None)."""
    agent = event.agent
    erasure = erasure_of(agent, [], events=[event])

    def quoting(model: type[models.Model]) -> Any:
        return rows_quoting(model, erasure, erasure.beginnings).filter(persona__in=personas)

    learned = Fact.objects.filter(agent=agent, persona__in=personas, source_event=event)
    keys = [key for found in (quoting(Fact), learned) for key in found.values_list("pk", flat=True)]
    facts = Fact.objects.filter(agent=agent, pk__in=keys).order_by("-pk")
    events = quoting(Event).exclude(pk=event.pk).order_by("-pk")
    rows: list[Any] = [row for found in (events, facts) for row in found.select_related("agent")[:most]]
    rows += _last_versions(agent, personas, _document_keys(quoting(Document))[:most]).values()
    return [QuotingMemory(row) for row in rows]


def ids_by_type(memories: Collection[QuotingMemory]) -> dict[str, list[Any]]:
    """The ids of memories by the argument of an erasure that names them: "events", "facts" and "documents"."""
    return {
        f"{model._meta.model_name}s": [one.memory.pk for one in memories if isinstance(one.memory, model)]
        for model in (Event, Fact, Document)
    }


def _last_versions(
    agent: Agent, personas: Collection[str], keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], Document]:
    """The last version of each document, by persona and address."""
    rows = Document.objects.filter(agent=agent, persona__in=personas, address__in=[address for _, address in keys])
    last = {(row.persona, row.address): row for row in rows.select_related("agent").order_by("version")}
    return {key: last[key] for key in keys}


def _document_keys(rows: Any) -> list[tuple[str, str]]:
    """Persona and address of each document of which `rows` are versions."""
    return list(rows.order_by().values_list("persona", "address").distinct())


@erasing
def fact_erase(*, fact: Fact, by: Principal, reason: str, documents: Collection[UUID] = ()) -> tuple[Receipt, Erasure]:
    """Erase one fact with its history. Facts that it superseded are then superseded by its successor, if it has one.

    `documents` are erased too, with all of their versions and with receipts of their own. `reason` is stored in each
    receipt, so it must not repeat the erased text. Raises NotAllowed, Invalid, or NotFound if one no longer exists.
    """
    by.require(ERASE, fact.agent)
    reason = reason_check(reason)
    quote_scan = scan_tables(fact.agent, [fact], versions_of(fact.agent, documents))
    agent = agent_lock_exclusive(fact.agent)
    if not Fact.objects.filter(agent=fact.agent_id, pk=fact.pk).exists():
        raise NotFound("There is no such fact.")
    entry = receipt_describe(by=by, action="fact.erase", target=fact, agent=agent, reason=reason, label="A fact")
    return facts_remove(agent, [fact.pk], quote_scan, entry, versions_of(agent, documents), by=by, reason=reason)


@erasing
def subject_erase(
    *, agent: Agent, subject: str, by: Principal, reason: str, documents: Collection[UUID] = ()
) -> tuple[Receipt, Erasure]:
    """Erase a subject of an agent in both personas: all facts with any of its aliases, and the subject itself.

    `subject` is any of its aliases. `documents` are erased too, with all of their versions. The receipt does not
    contain its name. Raises NotAllowed, Invalid, or NotFound if there is no such subject or document.
    """
    by.require(ERASE, agent)
    reason = reason_check(reason)
    subject = visible_text_check("subject", subject, 200, required=True)
    quote_scan = scan_tables(agent, list(facts_about(agent, subject).order_by("pk")), versions_of(agent, documents))
    agent = agent_lock_exclusive(agent)
    # Read again: spellings may have been merged or split, and facts learned, before the agent was locked.
    things = subjects_called(agent, subject)
    found = list(facts_about(agent, subject).order_by("pk").values_list("pk", flat=True))
    if not found and not things:
        raise NotFound("There is no fact about this subject.")
    entry = receipt_describe(by=by, action="subject.erase", target=agent, agent=agent, reason=reason, label="A subject")
    entry |= {"subjects": [str(thing) for thing in things]}
    return facts_remove(agent, found, quote_scan, entry, versions_of(agent, documents), by=by, reason=reason)


@erasing
def event_erase(
    *,
    event: Event,
    by: Principal,
    reason: str,
    events: Collection[int] = (),
    facts: Collection[UUID] = (),
    documents: Collection[UUID] = (),
) -> tuple[Receipt, Erasure]:
    """Erase one event, with the logged contexts that quote it or a secret in it. The summary of its session is derived
    again from the events that stay; a session without any goes.

    `events`, `facts` and `documents` of the agent are erased too, each type with a receipt. `reason` is stored in it,
    so it must not repeat the erased text. Raises NotAllowed, Invalid, or NotFound if one no longer exists.
    """
    by.require(ERASE, event.agent)
    reason = reason_check(reason)
    keys = dict.fromkeys((event.pk, *events))
    found = list(Fact.objects.filter(agent=event.agent, pk__in=facts).order_by("pk"))
    versions = versions_of(event.agent, documents)
    quote_scan = scan_tables(event.agent, found, versions, events_of(event.agent, keys))
    agent = agent_lock_exclusive(event.agent)
    # Read again: any may have been erased, or written to, before the agent was locked.
    gone, versions = events_of(agent, keys), versions_of(agent, documents)
    found = list(facts_lock(agent.pk, facts).values())
    if len(found) < len(set(facts)):
        raise NotFound("There is no such fact.")
    erasure = erasure_of(agent, found, versions, events=gone, quote_scan=quote_scan)
    rows, quoting = _quotes_erase(erasure, found)
    erased = Counter(events_remove(gone, quoting=quoting, by=by, reason=reason, rows=rows))
    if found:
        entry = receipt_describe(
            by=by, action="fact.erase", target=found[0], agent=agent, reason=reason, label="A fact"
        )
        erased.update(owner_erase(FACTS_CALL, [agent.pk, list(erasure.fact_ids), quoting], entry=entry, rows={}))
    erased.update(documents_remove(versions, quoting=quoting, by=by, reason=reason))
    return Receipt(erased), erasure


def events_remove(
    events: Sequence[Event], *, quoting: Sequence[int], by: Principal, reason: str, rows: Mapping[str, int]
) -> dict[str, int]:
    """Delete events of a locked agent, with one receipt; returns counts by table, with `rows` added."""
    agent, keys = events[0].agent, [event.pk for event in events]
    for persona in Persona.values:
        of_persona = [str(event.pk) for event in events if event.persona == persona]
        index_remove(agent.pk, persona, ItemType.EVENT, of_persona)
    feed_changes_record(feed_change_draft("event.erased", agent, one.persona, "event", one.pk) for one in events)
    entry = receipt_describe(
        by=by, action="event.erase", target=events[0], agent=agent, reason=reason, label="An event"
    )
    done = owner_erase(
        "nous_erase_events(%s, %s::bigint[], %s::bigint[], %s::jsonb)",
        [agent.pk, keys, list(quoting)],
        entry=entry,
        rows=Counter(rows) + Counter(searchitem=len(keys)),
    )
    for persona, loop_id in {(event.persona, event.loop_id): None for event in events}:
        loop_renew(agent, persona, loop_id)
    return done


def events_of(agent: Agent, keys: Collection[int]) -> list[Event]:
    """The events of an agent with these ids. Raises NotFound if one is gone."""
    events = {event.pk: event for event in Event.objects.filter(agent=agent, pk__in=keys)}
    if missing := set(keys) - events.keys():
        raise NotFound(f"There is no such event: {min(missing)}.")
    return [events[key] for key in keys]


def facts_about(agent: Agent, subject: str) -> models.QuerySet[Fact]:
    """Facts of both personas about the subjects with the alias `subject`, under any of their aliases."""
    spelled = SubjectAlias.objects.filter(agent=agent, subject__in=subjects_called(agent, subject))
    return Fact.objects.filter(agent=agent, subject_alias__in=spelled)


def subjects_called(agent: Agent, spelling: str) -> list[UUID]:
    """The subjects of both personas that `spelling` means."""
    found = (alias_find(agent=agent, persona=persona, spelling=spelling) for persona in Persona.values)
    return [alias.subject_id for alias in found if alias is not None]


def facts_remove(
    agent: Agent,
    fact_ids: Sequence[UUID],
    quote_scan: QuoteScan,
    entry: Mapping[str, object],
    documents: Sequence[Document] = (),
    *,
    by: Principal,
    reason: str,
    project: str = "",
    user: str = "",
) -> tuple[Receipt, Erasure]:
    """Delete facts and document versions of a locked agent; `entry` are the fields of the facts' receipt."""
    facts = list(facts_lock(agent.pk, fact_ids).values())
    erasure = erasure_of(agent, facts, documents, quote_scan=quote_scan, project=project, user=user)
    rows, quoting = ({}, []) if erasure.of_agent else _quotes_erase(erasure, facts)
    erased = Counter(owner_erase(FACTS_CALL, [agent.pk, list(erasure.fact_ids), quoting], entry=entry, rows=rows))
    erased.update(documents_remove(documents, quoting=quoting, by=by, reason=reason))
    return Receipt(erased), erasure


def _quotes_erase(erasure: Erasure, facts: Sequence[Fact] = ()) -> tuple[dict[str, int], list[Any]]:
    """Erase what quotes the texts of an erasure, and its facts from the index; returns counts by table, and the keys
    of the records of the trail that may quote it: of these, only those that do are blanked."""
    agent, rows = erasure.agent, erasers_run(erasure)
    _unlink(facts)
    feed_changes_record(feed_change_draft("fact.erased", agent, fact.persona, "fact", fact.pk) for fact in facts)
    for persona in Persona.values:
        index_remove(agent.pk, persona, ItemType.FACT, [str(fact.pk) for fact in facts])
    rows.update({"searchitem": len(facts), "workingmemory": working_memory_erase(erasure)})
    return rows, quoting_keys(AuditEvent, erasure)


def _unlink(facts: Sequence[Fact]) -> None:
    """Remove all references to these facts from other rows.

    A fact that was superseded by an erased one is then superseded by the next fact of the chain that stays.
    """
    erased = {fact.pk: fact.superseded_by_id for fact in facts}
    for fact_id in erased:
        heir, passed = erased[fact_id], {fact_id}
        while heir in erased and heir not in passed:
            passed.add(heir)
            heir = erased[heir]
        others = Fact.objects.filter(superseded_by=fact_id).exclude(pk__in=erased)
        if heir is None or heir in erased:
            others.update(superseded_by=None)
        else:
            others.filter(pk=heir).update(superseded_by=None)
            others.exclude(pk=heir).update(superseded_by=heir)
    Fact.objects.filter(contradiction_of__in=erased).exclude(pk__in=erased).update(contradiction_of=None)


@erasing
def project_erase(*, agent: Agent, project: str, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    """Erase all rows of an agent with the key of a project, tasks included, in both personas: memories of all types,
    events with their loops, working memories, and the contexts and expectations of the project. Other memories that
    mention the project stay; the receipt does not name it.

    Raises NotAllowed, Invalid, or NotFound if no row has the key.
    """
    by.require(ERASE, agent)
    return _keyed_erase(agent, "project", project, by=by, reason=reason)


@erasing
def user_erase(*, agent: Agent, user: str, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    """Erase all rows of an agent with the key of a user in both personas, as `project_erase` does for a project, with
    the tokens that are bound to the user. The receipt does not name the user.

    Raises NotAllowed, Invalid, or NotFound if no row has the key.
    """
    by.require(MANAGE, agent)
    return _keyed_erase(agent, "user", user, by=by, reason=reason)


def _keyed_erase(agent: Agent, name: str, key: str, *, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    reason, key = reason_check(reason), key_check(name, key)
    if key in ("", EVERYBODY):
        raise Invalid(f"Name the {name}.", field=name)
    named: dict[str, Any] = {name: key}
    quote_scan = scan_tables(agent, list(Fact.objects.filter(agent=agent, **named).order_by("pk")))
    agent = agent_lock_exclusive(agent)
    tokens = ApiToken.objects.filter(agent=agent, **named) if name == "user" else ApiToken.objects.none()
    found = list(Fact.objects.filter(agent=agent, **named).order_by("pk").values_list("pk", flat=True))
    entry = receipt_describe(by=by, action=f"{name}.erase", target=agent, agent=agent, reason=reason, label=f"A {name}")
    rows: Counter[str] = Counter()
    erasure = Erasure(agent, **named)
    if found:
        receipt, erasure = facts_remove(agent, found, quote_scan, entry, by=by, reason=reason, **named)
        rows.update(receipt.rows)
    else:
        rows.update(erasers_run(erasure))
    rows["change"] = _named_changes(agent, **named).delete()[0]
    rest = {"searchitem": SearchItem.objects.filter(agent=agent, **named).delete()[0]}
    if tokens:
        rest["apitoken"] = tokens.delete()[1][ApiToken._meta.label]
    rows.update(owner_erase(f"nous_erase_{name}(%s, %s, %s::jsonb)", [agent.pk, key], entry=entry, rows=rest))
    if not rows.total():
        raise NotFound(f"This {name} has no data.")
    return Receipt(rows), erasure


def _named_changes(agent: Agent, **key: str) -> models.QuerySet[Change]:
    """Entries of the change feed about loops and sessions with a key, whose ids there are names by the writer."""
    loops = LoopSummary.objects.filter(agent=agent, **key).values("loop_id")
    sessions = WorkingMemory.objects.filter(agent=agent, **key).values("session_id")
    named = models.Q(object_type="loopsummary", object_id__in=loops)
    return Change.objects.filter(named | models.Q(object_type="workingmemory", object_id__in=sessions), agent=agent)


@erasing
def agent_erase(*, agent: Agent, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    """Erase an agent with its log, memories, search index, contexts, identity, proposals and tokens.

    Its audit records stay, without quoted text. Raises NotAllowed, Invalid or NotFound.
    """
    by.require(ERASE, agent)
    reason = reason_check(reason)
    agent = agent_lock_exclusive(agent, whole=True)
    rows = erasers_run(Erasure(agent))
    for model, where in _rows_of_an_agent():
        if model not in OWNERS_TO_DELETE:
            rows[model._meta.model_name or ""] = _delete(model, where, [agent.pk])
    entry = receipt_describe(by=by, action="agent.erase", target=agent, agent=agent, reason=reason, label=agent.slug)
    return Receipt(owner_erase("nous_erase_agent(%s, %s::jsonb)", [agent.pk], entry=entry, rows=rows)), Erasure(agent)


def _rows_of_an_agent() -> list[tuple[type[models.Model], str]]:
    """Every table with rows of an agent and the SQL condition on those rows; the agent's own table is the last.

    Tables are found by their foreign keys, so new tables need no change here. The audit trail is excluded.
    """
    found: dict[type[models.Model], str] = {Agent: '"id" = %s'}
    while True:
        more = {
            model: condition
            for model in apps.get_models(include_auto_created=True)
            if model not in found and model is not AuditEvent and (condition := _condition(model, found))
        }
        if not more:
            # Referring tables come before the tables that they refer to.
            return list(reversed(found.items()))
        found |= more


def _condition(model: type[models.Model], found: Mapping[type[models.Model], str]) -> str:
    quote = connection.ops.quote_name
    keys = [
        key
        for key in model._meta.concrete_fields
        if isinstance(key, models.ForeignKey)
        and key.related_model in found
        # A row may be of no agent, such as figures of all; a row that may refer to another is not of that one.
        and (not key.null or key.related_model is Agent)
    ]
    # A direct foreign key to the agent is preferred to a chain.
    keys.sort(key=lambda key: key.related_model is not Agent)
    for key in keys:
        if key.related_model is Agent:
            return f"{quote(key.column)} = %s"
        target = key.related_model._meta
        inner = f"SELECT {quote(target.pk.attname)} FROM {quote(target.db_table)} WHERE {found[key.related_model]}"  # noqa: S608
        return f"{quote(key.column)} IN ({inner})"
    return ""


def _delete(model: type[models.Model], where: str, params: Sequence[Any]) -> int:
    """Delete rows by SQL: Django refuses to delete rows that refer to each other."""
    table = connection.ops.quote_name(model._meta.db_table)
    return sql_change(f"DELETE FROM {table} WHERE {where}", params)  # noqa: S608


PURGED_AT_ONCE = 200
REASON = "It expired, and its retention is over."


def expired_purge(*, by: Principal) -> int:
    """Erase what expired before the retention of prompts began, in a bounded batch; returns how many.

    What people marked as wrong or retired stays: it keeps the agent from storing the same again.
    """
    horizon = clock.now() - timedelta(days=settings.CONTEXT_RETENTION_DAYS)
    facts = Fact.objects.filter(expires_at__lte=horizon, invalidated_at__isnull=True)
    documents = Document.objects.filter(expires_at__lte=horizon, superseded_by__isnull=True)
    documents = documents.exclude(Q(active=False, endorsed=True))
    purged = 0
    kinds: list[tuple[str, Any, Any]] = [("fact", facts, fact_erase), ("document", documents, document_erase)]
    for name, rows, erase in kinds:
        for row in rows.select_related("agent").order_by("expires_at", "pk")[:PURGED_AT_ONCE]:
            with transaction.atomic():
                agent_lock_exclusive(row.agent)
                # It may have been kept or erased since.
                if rows.filter(agent=row.agent_id, pk=row.pk).exists():
                    erase(**{name: row, "by": by, "reason": REASON})
                    purged += 1
    return purged
