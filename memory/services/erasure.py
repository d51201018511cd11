"""Erasing for good: a fact, everything about a subject, everything of a project, or a whole agent.

What is erased is gone from every table, and from what the audit trail quotes; a receipt stays there that says
what kind of thing, how many rows, who and why, and not what it said. What only grows is out of the running product's
reach: the owner of the tables deletes and blanks there, and writes the receipt (memory/services/owner_erasure.py).

Whoever writes for the agent is waited for, or waits (identity/services/agent_lock.py), so that nothing which was read
before the erasure is written after it.

Other apps erase what they keep through `erasers`, so that memory depends on none of them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, ParamSpec
from uuid import UUID

from django.apps import apps
from django.db import connection, models, transaction

from identity.models import Agent, AuditEvent, Change, ChangeProposal, IdentityVersion, Persona
from identity.principal import Principal
from identity.services.agent_lock import agent_erasing
from identity.services.change_feed import change_draft, changes_record
from memory.models import Fact, FactChange, ItemType, LoopSummary, SearchItem, SubjectAlias, WorkingMemory
from memory.models.project_scope import key_check
from memory.search.index_writer import index_remove
from memory.services.facts.locks import facts_lock
from memory.services.owner_erasure import (
    OWNERS_TO_DELETE,
    agent_delete,
    facts_delete,
    project_delete,
    receipt_describe,
)
from memory.services.subjects.registry import alias_find
from memory.types import MEMORY_TYPES
from nousweb.lib.characters import plain_text
from nousweb.lib.chatmarks import escape_markup
from nousweb.lib.errors import Invalid, NotFound
from nousweb.lib.fencing import fence_line
from nousweb.lib.retrying import transaction_retried
from nousweb.lib.validation import text_check, visible_text_check

ERASE = "memory.erase_memory"
MAX_REASON_CHARACTERS = 2_000
NEEDLE_CHARACTERS = 60
"""So much of a fact's beginning is looked for in what may quote it, since quotations may be cut."""
SHORTEST_NEEDLE = 8
"""A shorter text says nothing of where it came from; rows that quote it are found by the fact's id alone.

The audit trail is blanked by longer texts only, which the owner of the tables decides.
"""
RECEIPTS = ("fact.erase", "subject.erase", "project.erase", "agent.erase")


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found in large tables before anybody had to wait: keys of rows in which one of `needles` occurs.

    Rows of transactions from `since` on, a transaction's id, are to be looked at again.
    """

    needles: list[str]
    since: str
    keys: Mapping[type[models.Model], list[Any]]


@dataclass(frozen=True, slots=True)
class Erasure:
    """What is being erased: facts of an agent with the texts they ever held, those of a `project` with all else that
    carries its key, or with neither the whole agent."""

    agent: Agent
    fact_ids: tuple[UUID, ...] = ()
    texts: tuple[str, ...] = ()
    looked: Looked | None = None
    project: str = ""

    @property
    def of_agent(self) -> bool:
        return not self.fact_ids and not self.project

    @property
    def needles(self) -> list[str]:
        """What to look for in other rows as they are written in JSON: the facts' ids and their texts' beginnings.

        An agent may quote a text as a prompt showed it, too.
        """
        spelled = dict.fromkeys(spelling for text in self.texts for spelling in _spellings(text))
        texts = (json.dumps(text[:NEEDLE_CHARACTERS], ensure_ascii=False)[1:-1] for text in spelled)
        found = dict.fromkeys(text for text in texts if len(text) >= SHORTEST_NEEDLE)
        return [*map(str, self.fact_ids), *found]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an erasure came to: rows erased or blanked by table, and rows by table that still quote a text.

    `still_quoted` counts what is somebody else's to change: the log itself, memories of their own, the identity, and
    what the audit trail says of decisions.
    """

    rows: dict[str, int]
    still_quoted: dict[str, int] = field(default_factory=dict)


Eraser = Callable[[Erasure], Mapping[str, int]]
P = ParamSpec("P")
erasers: list[Eraser] = []
"""Each erases what its app keeps of an Erasure, inside its transaction, and returns how many rows by table.

Rows that refer to the agent by a foreign key go with a whole agent by themselves.
"""
large_tables: list[type[models.Model]] = [AuditEvent]
"""Those that are read through before the agent is held, so that nobody waits for it; see `quoting_keys`."""


def erasing(service: Callable[P, tuple[Receipt, Erasure]]) -> Callable[P, Receipt]:
    """Make an erasure one transaction, tried again after a deadlock with what holds no agent, such as an embedding.

    What goes on quoting it is counted afterwards, when nobody waits any more.
    """

    @wraps(service)
    def run(*args: P.args, **given: P.kwargs) -> Receipt:
        def work() -> tuple[Receipt, Erasure]:
            with transaction.atomic():
                return service(*args, **given)

        receipt, erasure = transaction_retried(work)
        return receipt if erasure.of_agent else replace(receipt, still_quoted=_still_quoted(erasure))

    return run


@erasing
def fact_erase(*, fact: Fact, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    """Erase one fact with its history. What it had replaced is said to be replaced by what replaced it, if anything.

    `reason` is kept in the receipt, so it must not repeat what is erased. Raises NotAllowed, Invalid, or NotFound
    when it has gone meanwhile.
    """
    by.require(ERASE, fact.agent)
    reason = reason_check(reason)
    looked = _look(fact.agent, [fact.pk])
    agent = agent_erasing(fact.agent)
    if not Fact.objects.filter(pk=fact.pk).exists():
        raise NotFound("There is no such fact.")
    entry = receipt_describe(by=by, action="fact.erase", target=fact, agent=agent, reason=reason, label="A fact")
    return _erase_facts(agent, [fact.pk], looked, entry)


@erasing
def subject_erase(*, agent: Agent, subject: str, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    """Erase a subject of an agent, in both personas: every fact with any of its spellings, and what names it.

    `subject` is any of its spellings. The receipt does not name it. Raises NotAllowed, Invalid, or NotFound when there
    is no such subject.
    """
    by.require(ERASE, agent)
    reason = reason_check(reason)
    subject = visible_text_check("subject", subject, 200, required=True)
    about = facts_about(agent, subject).order_by("pk").values_list("pk", flat=True)
    looked = _look(agent, list(about))
    agent = agent_erasing(agent)
    # Read again: spellings may have been merged or split, and facts learned, before the agent was held.
    things = subjects_called(agent, subject)
    found = list(facts_about(agent, subject).order_by("pk").values_list("pk", flat=True))
    if not found and not things:
        raise NotFound("There is no fact about this subject.")
    entry = receipt_describe(by=by, action="subject.erase", target=agent, agent=agent, reason=reason, label="A subject")
    entry |= {"subjects": [str(thing) for thing in things]}
    if not found:
        return Receipt(facts_delete(agent=agent, fact_ids=[], quoting=[], entry=entry, rows={})), Erasure(agent)
    return _erase_facts(agent, found, looked, entry)


@erasing
def project_erase(*, agent: Agent, project: str, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    """Erase everything of an agent that carries the key of a project, its tasks too, in both personas: memories of all
    types, events with their loops, working memories, and the contexts and expectations that asked for it. What other
    memories tell of it stays; the receipt does not name it.

    Raises NotAllowed, Invalid, or NotFound when nothing carries the key.
    """
    by.require(ERASE, agent)
    reason = reason_check(reason)
    project = key_check("project", project)
    if not project:
        raise Invalid("Name the project.", field="project")
    looked = _look(agent, list(_facts_of_project(agent, project)))
    agent = agent_erasing(agent)
    found = list(_facts_of_project(agent, project))
    if not found and not project_counts(agent, project):
        raise NotFound("There is nothing of this project.")
    entry = receipt_describe(by=by, action="project.erase", target=agent, agent=agent, reason=reason, label="A project")
    rows: dict[str, int] = {}
    erasure = Erasure(agent, project=project)
    if found:
        receipt, erasure = _erase_facts(agent, found, looked, entry, project)
        rows = receipt.rows
    else:
        rows |= _erasers_run(erasure)
    rows["change"] = _named_changes(agent, project).delete()[0]
    rest = {"searchitem": SearchItem.objects.filter(agent=agent, project=project).delete()[0]}
    for name, count in project_delete(agent=agent, project=project, entry=entry, rows=rest).items():
        rows[name] = rows.get(name, 0) + count
    return Receipt(rows), erasure


def project_counts(agent: Agent, project: str) -> dict[str, int]:
    """How many rows carry the key of a project, by the names of the models; only those of which there are any."""
    kept: tuple[type[models.Model], ...] = (*(one.model for one in MEMORY_TYPES.values()), LoopSummary, WorkingMemory)
    counts = {
        model._meta.model_name or "": model._default_manager.filter(agent=agent, project=project).count()
        for model in kept
    }
    return {name: count for name, count in counts.items() if count}


def _named_changes(agent: Agent, project: str) -> models.QuerySet[Change]:
    """The changes of loops and sessions of a project, which the feed calls by names of the writer."""
    loops = LoopSummary.objects.filter(agent=agent, project=project).values("loop_id")
    sessions = WorkingMemory.objects.filter(agent=agent, project=project).values("session_id")
    named = models.Q(object_type="loopsummary", object_id__in=loops)
    return Change.objects.filter(named | models.Q(object_type="workingmemory", object_id__in=sessions), agent=agent)


def _facts_of_project(agent: Agent, project: str) -> models.QuerySet[Any, UUID]:
    return Fact.objects.filter(agent=agent, project=project).order_by("pk").values_list("pk", flat=True)


@erasing
def agent_erase(*, agent: Agent, by: Principal, reason: str) -> tuple[Receipt, Erasure]:
    """Erase an agent with everything of it: log, memories, index, contexts, identity, proposals, tokens.

    Rows of the audit trail stay, without what they quoted. Raises NotAllowed, Invalid or NotFound.
    """
    by.require(ERASE, agent)
    reason = reason_check(reason)
    agent = agent_erasing(agent, whole=True)
    rows = _erasers_run(Erasure(agent))
    for model, where in _rows_of_an_agent():
        if model not in OWNERS_TO_DELETE:
            rows[model._meta.model_name or ""] = _delete(model, where, [agent.pk])
    entry = receipt_describe(by=by, action="agent.erase", target=agent, agent=agent, reason=reason, label=agent.slug)
    return Receipt(agent_delete(agent=agent, entry=entry, rows=rows)), Erasure(agent)


def facts_about(agent: Agent, subject: str) -> models.QuerySet[Fact]:
    """Facts of both personas about the subjects that have the spelling `subject`, whatever they call them."""
    spelled = SubjectAlias.objects.filter(agent=agent, subject__in=subjects_called(agent, subject))
    return Fact.objects.filter(agent=agent, subject_alias__in=spelled)


def subjects_called(agent: Agent, spelling: str) -> list[UUID]:
    """The subjects of both personas that `spelling` means."""
    found = (alias_find(agent=agent, persona=persona, spelling=spelling) for persona in Persona.values)
    return [alias.subject_id for alias in found if alias is not None]


def reason_check(reason: str) -> str:
    """Why something is erased; it has to be said."""
    return text_check("reason", reason, MAX_REASON_CHARACTERS, required=True)


def _erasers_run(erasure: Erasure) -> dict[str, int]:
    rows: dict[str, int] = {}
    for eraser in erasers:
        for name, count in eraser(erasure).items():
            rows[name] = rows.get(name, 0) + count
    return rows


# Facts


def _erasure_of(agent: Agent, facts: Sequence[Fact], looked: Looked | None = None, project: str = "") -> Erasure:
    # Whatever an edit replaced was content too.
    texts = {fact.content for fact in facts}
    changes = FactChange.objects.filter(fact__in=facts)
    texts |= {change.before["content"] for change in changes if isinstance(change.before.get("content"), str)}
    return Erasure(agent, tuple(fact.pk for fact in facts), tuple(sorted(texts)), looked, project)


def _look(agent: Agent, fact_ids: Sequence[UUID]) -> Looked:
    """Read large tables through for what quotes these facts, as they are now."""
    erasure = _erasure_of(agent, list(Fact.objects.filter(pk__in=fact_ids).order_by("pk")))
    with connection.cursor() as cursor:
        # Before the tables are read: what commits meanwhile is looked at again.
        cursor.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
        (since,) = cursor.fetchone()
    return Looked(erasure.needles, since, {model: quoting_keys(model, erasure) for model in large_tables})


def _erase_facts(
    agent: Agent, fact_ids: Sequence[UUID], looked: Looked, entry: Mapping[str, object], project: str = ""
) -> tuple[Receipt, Erasure]:
    facts = list(facts_lock(fact_ids).values())
    erasure = _erasure_of(agent, facts, looked, project)
    rows = _erasers_run(erasure)
    _unlink(facts)
    changes_record(change_draft("fact.erased", agent, fact.persona, "fact", fact.pk) for fact in facts)
    for persona in Persona.values:
        index_remove(persona, ItemType.FACT, [str(fact.pk) for fact in facts])
    rows["searchitem"] = len(facts)
    rows["workingmemory"] = _forget_in_mind(erasure)
    quoting = quoting_keys(AuditEvent, erasure)
    rows = facts_delete(agent=agent, fact_ids=erasure.fact_ids, quoting=quoting, entry=entry, rows=rows)
    return Receipt(rows), erasure


def _unlink(facts: Sequence[Fact]) -> None:
    """Leave no other row that refers to these facts.

    A chain closes over the gap: what an erased fact had replaced is now replaced by the next one that stays.
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


def _forget_in_mind(erasure: Erasure) -> int:
    """Take the facts out of working memories: items, threads and a task that quote one; returns how many did."""
    changed = 0
    for memory in _quoting(WorkingMemory, erasure).order_by("pk").select_for_update():
        memory.items = [item for item in memory.items if not _names(item, erasure)]
        memory.open_threads = [thread for thread in memory.open_threads if not _names(thread, erasure)]
        memory.task = "" if _names(memory.task, erasure) else memory.task
        memory.save(update_fields=["items", "open_threads", "task"])
        changed += 1
    return changed


def _spellings(text: str) -> tuple[str, ...]:
    """`text` as it is, on one line without what does not show, and as a line of a prompt, whole or within one."""
    line = " ".join(plain_text(text).split())
    return text, line, escape_markup(line), fence_line(text)


def _names(value: object, erasure: Erasure) -> bool:
    text = json.dumps(value, ensure_ascii=False)
    return any(needle in text for needle in erasure.needles)


def quoting_sql(table: str) -> str:
    """A condition on rows of `table`, with the needles as its one parameter: any column holds one of them."""
    return f"EXISTS (SELECT 1 FROM unnest(%s::text[]) needle WHERE strpos(to_jsonb({table})::text, needle) > 0)"  # noqa: S608


def quoting_keys(model: type[models.Model], erasure: Erasure) -> list[Any]:
    """Keys of the agent's rows that quote what is erased, ascending. What was found before is not looked for again."""
    rows, looked = _quoting(model, erasure), erasure.looked
    found: set[Any] = set()
    if looked is not None and looked.needles == erasure.needles and model in looked.keys:
        found.update(looked.keys[model])
        table = connection.ops.quote_name(model._meta.db_table)
        rows = rows.extra(where=[f"age({table}.xmin) <= age(%s::xid8::xid)"], params=[looked.since])  # noqa: S610
    return sorted(found.union(rows.values_list("pk", flat=True)))


def _quoting(model: type[models.Model], erasure: Erasure) -> models.QuerySet:
    """Rows of the agent in which a fact's id or the beginning of its text occurs."""
    table = connection.ops.quote_name(model._meta.db_table)
    rows = model._default_manager.filter(agent=erasure.agent)
    return rows.extra(where=[quoting_sql(table)], params=[erasure.needles])  # noqa: S610  (names of our own tables)


def _still_quoted(erasure: Erasure) -> dict[str, int]:
    keeping: tuple[type[models.Model], ...] = (
        *(model for one in MEMORY_TYPES.values() for model in (one.model, *one.tables)),
        WorkingMemory,
        IdentityVersion,
        ChangeProposal,
    )
    counts = {model._meta.model_name or "": _quoting(model, erasure).count() for model in keeping}
    # What a blank record keeps is the id, so that the receipt can be found.
    trail = _quoting(AuditEvent, erasure).exclude(before=None, after=None, message="", object_label="")
    counts["auditevent"] = trail.exclude(action__in=RECEIPTS).count()
    return {name: count for name, count in counts.items() if count}


# Agents


def _rows_of_an_agent() -> list[tuple[type[models.Model], str]]:
    """Every table with rows of an agent, the agent's own last, each with the condition on them.

    Found by following foreign keys, so that a new table needs no word here. The audit trail is not among them.
    """
    found: dict[type[models.Model], str] = {Agent: '"id" = %s'}
    while True:
        more = {
            model: condition
            for model in apps.get_models(include_auto_created=True)
            if model not in found and model is not AuditEvent and (condition := _condition(model, found))
        }
        if not more:
            # What refers comes before what it refers to.
            return list(reversed(found.items()))
        found |= more


def _condition(model: type[models.Model], found: Mapping[type[models.Model], str]) -> str:
    quote = connection.ops.quote_name
    keys = [
        key
        for key in model._meta.concrete_fields
        if isinstance(key, models.ForeignKey) and not key.null and key.related_model in found
    ]
    # An agent named directly is surer than one at the end of a chain.
    keys.sort(key=lambda key: key.related_model is not Agent)
    for key in keys:
        if key.related_model is Agent:
            return f"{quote(key.column)} = %s"
        target = key.related_model._meta
        inner = f"SELECT {quote(target.pk.attname)} FROM {quote(target.db_table)} WHERE {found[key.related_model]}"  # noqa: S608
        return f"{quote(key.column)} IN ({inner})"
    return ""


def _delete(model: type[models.Model], where: str, params: Sequence[Any]) -> int:
    """Delete rows as they are: Django's own way would refuse rows that refer to each other."""
    with connection.cursor() as cursor:
        table = connection.ops.quote_name(model._meta.db_table)
        cursor.execute(f"DELETE FROM {table} WHERE {where}", params)  # noqa: S608
        return cursor.rowcount
