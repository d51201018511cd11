"""Learning a fact: stored, confirmed, or stored in the place of an old one, in one transaction.

Models are asked before the transaction, never in it. In it, those who learn for the same memory wait for each other,
so that what two of them learn at once is compared too.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.comparison.resolution import FactMatch, Resolution, evidence_of, resolve
from memory.jobs.queue import job_queue
from memory.judge import RelationVerdict
from memory.models import Episode, Fact, FactChange, ItemType, MemoryReview, Scope
from memory.persona import VIEW_SUBCONSCIOUS
from memory.policy import CATEGORY_PERMISSIONS, DEFAULT_CATEGORY, MAX_CONTENT_CHARACTERS
from memory.search.index_writer import index_put
from memory.services.facts.change import fact_confirm, fact_supersede, facts_lock
from memory.services.facts.comparison_candidates import Vector, candidates_compare, collection_of
from memory.services.facts.history import change_record
from memory.services.facts.precheck import Precheck, fact_precheck
from memory.services.facts.rejected_facts import rejected_like, relearned_ask
from memory.services.review_opening import pair_ask
from memory.services.row_update import in_transaction
from memory.types import entry_of
from memory.validation import choice_check, moment_check, shown_check, tags_check, text_check, unit_check, word_check
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid, NotAllowed


@dataclass(frozen=True, slots=True)
class LearnResult:
    """What learning came to. `action`: "stored"; "confirmed", then `fact` is the one that was known already;
    "superseded", then it took the place of `superseded`; "queued": stored, and `reviews` ask people about it.

    Where people found wrong what is learned, nothing is stored, and `fact` is the one that they found wrong: "queued"
    with a question while one waits, "decided" when its source is none that they did not know.
    """

    action: str
    fact: Fact
    superseded: tuple[Fact, ...] = ()
    reviews: tuple[MemoryReview, ...] = field(default=())

    @property
    def review(self) -> UUID | None:
        """The first question that waits."""
        return self.reviews[0].pk if self.reviews else None


def fact_learn(
    *,
    agent: Agent,
    content: str,
    by: Principal,
    subject: str = "",
    category: str = DEFAULT_CATEGORY,
    kind: str = "",
    scope: str = Scope.GLOBAL,
    tags: Sequence[str] = (),
    confidence: float = 1.0,
    importance: float = 0.5,
    source: str = "",
    valid_from: datetime | None = None,
    valid_until: datetime | None = None,
    source_episode: Episode | None = None,
    persona: str = "",
    exclude: Sequence[UUID] = (),
    probe: Precheck | None = None,
) -> LearnResult:
    """Learn a fact in the memory of the persona that `by` acts as, or for the system of `persona`.

    A fact that is known already is confirmed, one that certainly tells a newer value of an old one takes its place, and
    one that may do either is stored with a question, as is what would take the place of people's word or of what they
    are being asked about. What people found wrong is not stored again unless a person learns it. `exclude` are facts
    that it is not compared with. `confidence` and `importance` lie in [0, 1]. `probe` is of `fact_precheck`; without
    it, one is made unless a transaction is open, and then the comparison by meaning follows later. Raises Invalid,
    naming the field, or NotAllowed.
    """
    by.require("memory.add_fact", agent)
    if category in CATEGORY_PERMISSIONS:
        by.require(CATEGORY_PERMISSIONS[category], agent)
    if persona and persona != by.persona and not (by.kind == "system" or (by.is_person and by.may(VIEW_SUBCONSCIOUS))):
        raise NotAllowed(f"This belongs to the {persona}.")
    fact = Fact(
        agent=agent,
        persona=persona or by.persona,
        content=shown_check("content", content, MAX_CONTENT_CHARACTERS, required=True),
        subject=shown_check("subject", subject, 200),
        category=word_check("category", category),
        kind=word_check("kind", kind) if kind else "",
        scope=choice_check("scope", scope, Scope.values),
        tags=tags_check(tags),
        confidence=unit_check("confidence", confidence),
        importance=unit_check("importance", importance),
        source=text_check("source", source, 200),
        source_episode=source_episode,
        valid_from=moment_check("valid_from", valid_from),
        valid_until=moment_check("valid_until", valid_until),
    )
    if valid_from and valid_until and valid_until <= valid_from:
        raise Invalid("valid_until must be later than valid_from.", field="valid_until")
    may_replace = {name for name, right in CATEGORY_PERMISSIONS.items() if by.may(right)}
    if probe is None:
        probe = Precheck() if in_transaction() else fact_precheck(fact, may_replace=may_replace, exclude=exclude)
    return _learn(fact=fact, by=by, probe=probe, may_replace=may_replace, exclude=exclude)


@agent_transaction(of="fact")
def _learn(
    *, fact: Fact, by: Principal, probe: Precheck, may_replace: set[str], exclude: Sequence[UUID]
) -> LearnResult:
    # Another try, after a deadlock, begins with what was given.
    fact = copy.copy(fact)
    learning_lock(fact.agent, fact.persona)
    # What waited for the lock is learned after what was learned in the meantime.
    fact.recorded_at = clock.now()
    compared = candidates_compare(
        fact,
        vector=probe.vector,
        thresholds=probe.thresholds,
        may_replace=may_replace,
        exclude=exclude,
        across_subjects=not by.is_person,
    )
    verdicts = {key: judged.value for key, judged in probe.verdicts.items()}
    decision = resolve(compared, verdicts)
    facts_lock([each.fact_id for each in (decision.confirm, *decision.supersede, *decision.ask) if each])
    if decision.confirm is not None:
        return LearnResult("confirmed", _confirm(decision.confirm, by, probe, verdicts))
    if not by.is_person and (wrong := rejected_like(fact, vector=probe.vector, thresholds=probe.thresholds)):
        known, each = wrong
        review = relearned_ask(fact=fact, rejected=known, each=each, by=by)
        return LearnResult("queued", known, reviews=(review,)) if review else LearnResult("decided", known)
    fact.endorsed = by.is_person
    _store(fact, by, probe.vector)
    superseded, refused = _supersede(fact, decision, by, probe)
    reviews = [
        pair_ask(
            old=old,
            new=fact,
            comparison=each.comparison,
            judged=probe.verdicts.get(each.fact_id),
            by=by,
        )
        for each, old in _facts_of([*refused, *decision.ask])
    ]
    asked = tuple(review for review in reviews if review is not None)
    if probe.vector is None:
        job_queue("fact_check", agent=fact.agent, persona=fact.persona, subject=fact)
    action = "queued" if asked else "superseded" if superseded else "stored"
    return LearnResult(action, fact, tuple(superseded), asked)


def learning_lock(agent: Agent, persona: str) -> None:
    """Wait for whoever learns for the same memory, until the end of their transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"learn:{agent.pk}:{persona}"])


def _confirm(each: FactMatch, by: Principal, probe: Precheck, verdicts: dict[UUID, RelationVerdict]) -> Fact:
    known = Fact.objects.select_related("agent").get(pk=each.fact_id)
    return fact_confirm(
        fact=known,
        by=by,
        score=None if each.said else round(each.comparison.cosine, 4),
        reason="Learned again." if each.said else "Learned again in other words.",
        evidence=_evidence(each, probe),
    )


def _store(fact: Fact, by: Principal, vector: Vector | None) -> None:
    fact.save(force_insert=True)
    change_record(fact, FactChange.Action.STORED, by)
    index_put([entry_of(fact)], tell=vector is None)
    if vector is not None:
        vector_put(fact, vector)
    audit_record(
        by=by,
        action="fact.store",
        target=fact,
        agent=fact.agent,
        after={"content": fact.content, "subject": fact.subject, "category": fact.category},
    )


def _supersede(fact: Fact, decision: Resolution, by: Principal, probe: Precheck) -> tuple[list[Fact], list[FactMatch]]:
    """Let `fact` take the places that it certainly takes; returns whose, and those where the spans do not allow it."""
    superseded, refused = [], []
    for each, old in _facts_of(decision.supersede):
        if old.valid_from is not None and old.valid_from > fact.recorded_at:
            # What is to come does not yield by itself to what is: people say which of the two holds.
            refused.append(each)
            continue
        judged = probe.verdicts.get(old.pk)
        reason = judged.value.reason if judged else each.comparison.reasons[0].words
        try:
            with transaction.atomic():
                done, now = fact_supersede(
                    old=old,
                    new=fact,
                    by=by,
                    reason=reason,
                    score=round(each.comparison.cosine, 4),
                    evidence=_evidence(each, probe),
                )
        except (Invalid, Conflict):
            refused.append(each)
            continue
        superseded.append(done)
        fact.valid_from = now.valid_from
    return superseded, refused


def _facts_of(compared: Sequence[FactMatch]) -> list[tuple[FactMatch, Fact]]:
    facts = Fact.objects.select_related("agent").in_bulk([each.fact_id for each in compared])
    return [(each, facts[each.fact_id]) for each in compared if each.fact_id in facts]


def _evidence(each: FactMatch, probe: Precheck) -> dict[str, object]:
    judged = probe.verdicts.get(each.fact_id)
    if judged is None:
        return evidence_of(each.comparison)
    return evidence_of(each.comparison, judged.value, judged.call_id, judged.model)


def vector_put(fact: Fact, vector: Vector) -> None:
    """Give the fact's row of the index the vector that is known already, so that the next one finds it by meaning."""
    table = collection_of(fact.agent, fact.persona)
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET embedding = %s::halfvec, model = %s, status = 'ready', error = '', due_at = NULL"  # noqa: S608
            " WHERE item_type = %s AND item_id = %s AND text = %s AND status = 'pending'"
            " AND EXISTS (SELECT 1 FROM memory_embeddingmodel WHERE state = 'active' AND name = %s)",
            [vector.literal, vector.model, ItemType.FACT, str(fact.pk), fact.content, vector.model],
        )
