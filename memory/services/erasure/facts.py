"""Erasing a fact, or everything about a subject; documents that quote it go with it where that is said."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from django.db import models

from identity.models import Agent, AuditEvent, Persona
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_exclusive
from identity.services.change_feed import feed_change_draft, feed_changes_record
from memory.models import Document, Fact, ItemType, SubjectAlias
from memory.services.erasure.documents import documents_remove, versions_of
from memory.services.erasure.quoting import mind_forget, quoting_keys, tables_look
from memory.services.erasure.scope import Erasure, Looked, Receipt, erasure_of
from memory.services.erasure.transaction import ERASE, erasers_run, erasing, reason_check
from memory.services.facts.locks import facts_lock
from memory.services.index_writer import index_remove
from memory.services.owner_erasure import facts_delete, receipt_describe
from memory.services.subjects.registry import alias_find
from nousweb.lib.errors import NotFound
from nousweb.lib.validation import visible_text_check


@erasing
def fact_erase(*, fact: Fact, by: Principal, reason: str, documents: Collection[UUID] = ()) -> tuple[Receipt, Erasure]:
    """Erase one fact with its history. What it had replaced is said to be replaced by what replaced it, if anything.

    `documents` are erased with it, with all of their versions and receipts of their own. `reason` is kept in each
    receipt, so it must not repeat what is erased. Raises NotAllowed, Invalid, or NotFound when one has gone meanwhile.
    """
    by.require(ERASE, fact.agent)
    reason = reason_check(reason)
    looked = tables_look(fact.agent, [fact], versions_of(fact.agent, documents))
    agent = agent_lock_exclusive(fact.agent)
    if not Fact.objects.filter(agent=fact.agent_id, pk=fact.pk).exists():
        raise NotFound("There is no such fact.")
    entry = receipt_describe(by=by, action="fact.erase", target=fact, agent=agent, reason=reason, label="A fact")
    with_them = versions_of(agent, documents)
    return facts_remove(agent, [fact.pk], looked, entry, with_them, by=by, reason=reason)


@erasing
def subject_erase(
    *, agent: Agent, subject: str, by: Principal, reason: str, documents: Collection[UUID] = ()
) -> tuple[Receipt, Erasure]:
    """Erase a subject of an agent, in both personas: every fact with any of its spellings, and what names it.

    `subject` is any of its spellings; `documents` are erased with it, with all of their versions. The receipt does not
    name it. Raises NotAllowed, Invalid, or NotFound when there is no such subject or document.
    """
    by.require(ERASE, agent)
    reason = reason_check(reason)
    subject = visible_text_check("subject", subject, 200, required=True)
    looked = tables_look(agent, list(facts_about(agent, subject).order_by("pk")), versions_of(agent, documents))
    agent = agent_lock_exclusive(agent)
    # Read again: spellings may have been merged or split, and facts learned, before the agent was held.
    things = subjects_called(agent, subject)
    found = list(facts_about(agent, subject).order_by("pk").values_list("pk", flat=True))
    if not found and not things:
        raise NotFound("There is no fact about this subject.")
    entry = receipt_describe(by=by, action="subject.erase", target=agent, agent=agent, reason=reason, label="A subject")
    entry |= {"subjects": [str(thing) for thing in things]}
    return facts_remove(agent, found, looked, entry, versions_of(agent, documents), by=by, reason=reason)


def facts_about(agent: Agent, subject: str) -> models.QuerySet[Fact]:
    """Facts of both personas about the subjects that have the spelling `subject`, whatever they call them."""
    spelled = SubjectAlias.objects.filter(agent=agent, subject__in=subjects_called(agent, subject))
    return Fact.objects.filter(agent=agent, subject_alias__in=spelled)


def subjects_called(agent: Agent, spelling: str) -> list[UUID]:
    """The subjects of both personas that `spelling` means."""
    found = (alias_find(agent=agent, persona=persona, spelling=spelling) for persona in Persona.values)
    return [alias.subject_id for alias in found if alias is not None]


def facts_remove(
    agent: Agent,
    fact_ids: Sequence[UUID],
    looked: Looked,
    entry: Mapping[str, object],
    documents: Sequence[Document] = (),
    *,
    by: Principal,
    reason: str,
    project: str = "",
) -> tuple[Receipt, Erasure]:
    """Remove facts, and versions of `documents`, of an agent that is held; `entry` describes the facts' receipt."""
    facts = list(facts_lock(agent.pk, fact_ids).values())
    erasure = erasure_of(agent, facts, documents, looked=looked, project=project)
    rows: dict[str, int] = {}
    quoting: list[int] = []
    if not erasure.of_agent:
        rows = erasers_run(erasure)
        _unlink(facts)
        feed_changes_record(feed_change_draft("fact.erased", agent, fact.persona, "fact", fact.pk) for fact in facts)
        for persona in Persona.values:
            index_remove(agent.pk, persona, ItemType.FACT, [str(fact.pk) for fact in facts])
        rows["searchitem"] = len(facts)
        rows["workingmemory"] = mind_forget(erasure)
        quoting = quoting_keys(AuditEvent, erasure)
    rows = facts_delete(agent=agent, fact_ids=erasure.fact_ids, quoting=quoting, entry=entry, rows=rows)
    for name, count in documents_remove(documents, quoting=quoting, by=by, reason=reason).items():
        rows[name] = rows.get(name, 0) + count
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
