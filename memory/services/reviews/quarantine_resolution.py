"""Resolutions of reviews of texts (allow quarantined memories, keep them in quarantine, or undo either) and of
attributes: how many values one has at a time, for all its facts, past and future.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cmp_to_key
from typing import Any

from django.db import transaction
from django.db.models import Model, Q

from identity.principal import Principal
from identity.services.audit import audit_record
from memory.comparison.compare_facts import Comparison, compare_facts
from memory.comparison.compare_facts import Kind as ComparisonKind
from memory.comparison.fact_snapshot import FactSnapshot
from memory.jobs import job_queue
from memory.models import (
    Attribute,
    Censor,
    Event,
    Fact,
    FactChange,
    LongTermEntry,
    LoopSummary,
    MemoryReview,
    OriginFields,
    Subject,
    Trust,
    WorkingMemory,
    plain,
)
from memory.persona import PersonaMemory
from memory.policy.attributes import Cardinality, attribute_spellings
from memory.services.facts.changes import fact_change_record, facts_lock
from memory.services.facts.comparable_facts import comparable_facts, is_replaceable
from memory.services.facts.learn import replaceable_by
from memory.services.facts.repeated_facts import fact_supersede
from memory.services.loops import loops_summarise
from memory.services.quarantine.memories import (
    memory_text,
    quarantine_memory,
    quarantine_working_text,
    release_working_text,
    type_name,
)
from memory.services.reviews.open_review import PairReviewDraft, pair_reviews_open
from memory.services.reviews.states import (
    Kind,
    Resolution,
    is_budgeted,
    joined_pairs,
    resolution_record,
    review_reopen,
    undecided_ask,
    undecided_mark,
)
from memory.services.search_index.writer import index_put, index_remove
from memory.services.subjects.registry import alias_enter, known_subjects_of, snapshot_of
from memory.types import MEMORY_TYPES, entry_of
from nousweb.lib import Conflict, Invalid, NotAllowed, clock

QUARANTINE_MODELS: dict[str, type[Model]] = {
    **{
        memory_type.name: memory_type.model
        for memory_type in MEMORY_TYPES.values()
        if issubclass(memory_type.model, OriginFields)
    },
    type_name(Censor): Censor,
}
"""Models whose rows can be quarantined, by name. Events and texts of working memory can be quarantined too."""


def quarantine_resolve(
    review: MemoryReview, resolution: MemoryReview.Resolution, by: Principal, comment: str
) -> dict[str, Any]:
    """Apply a person's resolution to the memories of `review`; returns the data for `quarantine_undo`.

    ALLOW puts the memories to use, or confirms those that are, with the trust class of a person. Any other resolution
    leaves or puts them in quarantine, and invalidates the facts among them.
    """
    done: list[list[Any]] = []
    for kind, key in review.details.get("items", []):
        if resolution is Resolution.ALLOW:
            before = _release(review, kind, key, by)
        else:
            before = _keep_quarantined(review.agent_id, kind, key, by, comment)
        if before is not None:
            done.append([kind, key, before])
    loops_resummarise(review.agent_id, review.persona, _events(done))
    return {"quarantined": done}


def quarantine_undo(review: MemoryReview, by: Principal) -> None:
    """Undo the resolution: quarantine the allowed memories again, put those to use that were, and take back the
    invalidation of facts."""
    done = review.before.get("quarantined", [])
    for kind, key, before in done:
        held = before.get("quarantined", True)
        if kind == "working":
            quarantine_working_text(review.agent_id, key)
        elif isinstance(row := item_lock(review.agent_id, kind, key), LongTermEntry):
            if row.quarantined != held:
                _undo_record(row.event, by, quarantined=held)
            event_put(row, origin=before["origin"], quarantined=held)
        elif row is not None:
            row.put(origin=before["origin"])
            if isinstance(row, Fact) and row.invalidated_at is not None:
                invalidated = {"invalidated_at": plain(row.invalidated_at)}
                row.put(invalidated_at=None)
                fact_change_record(
                    row, FactChange.Action.EDITED, by, reason="The resolution was undone.", before=invalidated
                )
            elif held and not row.quarantined:
                quarantine_memory(row)
            if not held and row.quarantined:
                _undo_record(row, by, quarantined=False)
                put_to_use(row)
                if isinstance(row, Fact):
                    _fact_enter(row, review, by)
    loops_resummarise(review.agent_id, review.persona, _events(done))


def _events(done: Sequence[Sequence[Any]]) -> list[int]:
    return [int(key) for kind, key, _ in done if kind == "event"]


def _undo_record(target: Any, by: Principal, *, quarantined: bool) -> None:
    audit_record(
        by=by, action="memory.hold" if quarantined else "memory.release", target=target, agent=target.agent,
        before={"quarantined": not quarantined}, after={"quarantined": quarantined},
        message="The resolution was undone.",
    )  # fmt: skip


def _release(review: MemoryReview, kind: str, key: str, by: Principal) -> dict[str, Any] | None:
    """Put one memory to use, or confirm one that is in use; returns its state before, None if there is nothing to
    do."""
    if kind == "working":
        return {} if release_working_text(review.agent_id, key) else None
    row = item_lock(review.agent_id, kind, key)
    if row is None or not (row.quarantined or kind == "event" or review.kind == Kind.NEW_MEMORY):
        return None
    target, audited = (row.event, ("quarantined", "trust")) if kind == "event" else (row, AUDITED)
    state = {name: getattr(row, name) for name in audited}
    before = {"origin": row.origin, "quarantined": row.quarantined}
    if kind == "event":
        event_put(row, origin=Trust.PERSON.value, quarantined=False)
    else:
        row.put(origin=Trust.PERSON.value)
    if row.quarantined:
        put_to_use(row)
        if isinstance(row, Fact):
            _fact_enter(row, review, by)
    after = {name: getattr(row, name) for name in audited}
    audit_record(by=by, action="memory.release", target=target, agent=target.agent, before=state, after=after)
    return before


def put_to_use(row: Any) -> None:
    """Take a memory out of quarantine, and index it."""
    row.quarantined = False
    # A fact that was replaced in the meantime stays replaced.
    if getattr(row, "superseded_by_id", None) is None and getattr(row, "invalidated_at", None) is None:
        row.active, row.retired_at = True, None
    row.save(update_fields=["quarantined", "active", "retired_at"])
    if not isinstance(row, Censor):
        index_put([entry_of(row)])


def event_put(entry: LongTermEntry, *, origin: str, quarantined: bool) -> None:
    """Give an event this state, in the index too; `loops_resummarise` is due after it."""
    entry.put(origin=origin, quarantined=quarantined)
    if quarantined:
        index_remove(entry.agent_id, entry.persona, "event", [str(entry.event_id)])
    else:
        index_put([entry_of(entry)])


def _fact_enter(fact: Fact, review: MemoryReview, by: Principal) -> None:
    """Do what learning does at once with other facts: enter the subject, and queue the comparison with other facts."""
    if fact.subject_alias_id is None and fact.subject:
        fact.put(
            subject_alias=alias_enter(
                agent=fact.agent, persona=fact.persona, spelling=fact.subject, by=by, category=fact.category
            )
        )
    fact_change_record(
        fact, FactChange.Action.RESTORED, by, before={"quarantined": True}, evidence={"review": str(review.pk)}
    )
    key = f"fact_check:{fact.pk}:{clock.now():%Y%m%dT%H%M%S%f}"
    job_queue("fact_check", agent=fact.agent, persona=fact.persona, subject=fact, key=key)


MAX_TRIED = 200


@contextmanager
def pending_used_in_dry_run(view: PersonaMemory) -> Iterator[None]:
    """Context manager: use what waits for consent in this view, of the latest MAX_TRIED reviews, as if a person had
    allowed it, in a transaction that is rolled back (dry run). Only this connection sees it. A search finds it by its
    words alone."""
    waiting = MemoryReview.objects.pending().filter(
        agent=view.agent, persona__in=view.personas, kind=MemoryReview.Kind.NEW_MEMORY, details__codes=["consent"]
    )
    with transaction.atomic():
        for items in waiting.order_by("-created_at").values_list("details__items", flat=True)[:MAX_TRIED]:
            for kind, key in items:
                if kind == "event":
                    for entry in LongTermEntry.objects.select_related("event").filter(agent=view.agent, event=int(key)):
                        entry.put(origin=Trust.PERSON.value, quarantined=False)
                        index_put([entry_of(entry)])
                elif row := QUARANTINE_MODELS[kind]._default_manager.filter(agent=view.agent, pk=key).first():
                    row.put(origin=Trust.PERSON.value)  # type: ignore[attr-defined]
                    put_to_use(row)
        try:
            yield
        finally:
            transaction.set_rollback(True)


def _keep_quarantined(agent_id: int, kind: str, key: str, by: Principal, comment: str) -> dict[str, Any] | None:
    """Keep one memory in quarantine, or put it there if it is in use, and invalidate a fact; returns its state before,
    None if nothing changes."""
    row = None if kind == "working" else item_lock(agent_id, kind, key)
    if row is None or (kind == "event" and row.quarantined):
        return None
    before = {"origin": row.origin, "quarantined": row.quarantined}
    if kind == "event":
        event_put(row, origin=row.origin, quarantined=True)
        audit_record(
            by=by, action="memory.hold", target=row.event, agent=row.event.agent,
            before={"quarantined": False}, after={"quarantined": True}, message=comment,
        )  # fmt: skip
    elif not row.quarantined:
        quarantine_memory(row, at=clock.now())
    if isinstance(row, Fact) and row.invalidated_at is None:
        row.put(invalidated_at=clock.now())
        fact_change_record(row, FactChange.Action.INVALIDATED, by, reason=comment, before={"quarantined": True})
        audit_record(
            by=by, action="fact.invalidate", target=row, agent=row.agent, before={"invalidated_at": None},
            after={"invalidated_at": plain(row.invalidated_at)}, message=comment,
        )  # fmt: skip
    return before


AUDITED = ("quarantined", "active", "trust")
"""What the audit trail tells of a memory that is released."""


def item_lock(agent_id: int, kind: str, key: Any) -> Any:
    """A memory of a review, or the long-term entry of an event, locked; None if it is gone."""
    model, agent = (LongTermEntry, "event__agent") if kind == "event" else (QUARANTINE_MODELS[kind], "agent")
    rows = model._default_manager.select_for_update(of=("self",), no_key=True).select_related(agent)
    return rows.filter(agent=agent_id, pk=key).first()


def loops_resummarise(agent_id: int, persona: str, events: Collection[int]) -> None:
    """Write the summaries of the loops of events again, each once, after these were quarantined or released: prompts
    have them."""
    of_events = LongTermEntry.objects.filter(agent=agent_id, persona=persona, event__in=events).values("loop_id")
    loops = LoopSummary.objects.filter(agent=agent_id, persona=persona, loop_id__in=of_events, closed_at__isnull=False)
    if events and loops.update(covered_events=0):
        loops_summarise(loops.values_list("pk", flat=True))


def quarantined_memories(review: MemoryReview) -> list[Any]:
    """The memories of a review that still exist: rows, events, or texts of working memory."""
    memories: list[Any] = []
    for kind, key in review.details.get("items", []):
        if kind == "event":
            entries = LongTermEntry.objects.select_related("event__agent")
            entry = entries.filter(agent=review.agent_id, event=int(key)).first()
            memories.append(entry and entry.event)
        elif kind == "working":
            working = WorkingMemory.objects.filter(agent=review.agent_id, pk=key.partition(":")[0]).first()
            parts = working.quarantined_entries if working else []
            memories += [str(part["text"]) for part in parts if part["id"] == key.partition(":")[2]]
        else:
            rows = QUARANTINE_MODELS[kind]._default_manager.select_related("agent")
            memories.append(rows.filter(agent=review.agent_id, pk=key).first())
    return [memory for memory in memories if memory is not None]


def quarantined_text(memory: Any) -> str:
    """The whole text of one of `quarantined_memories`."""
    if isinstance(memory, str):
        return memory
    return memory.content if isinstance(memory, Event) else memory_text(memory, "\n")


def texts_preload(reviews: Iterable[MemoryReview]) -> None:
    """Read the memories of these reviews for `quarantined_texts`, in one query for each type."""
    waiting = list(reviews)
    wanted: dict[str, set[str]] = defaultdict(set)
    for review in waiting:
        for kind, key in review.details.get("items", []):
            wanted[kind].add(key)
    found: dict[tuple[int, str, str], str] = {}
    for kind, keys in wanted.items():
        model: Any = Event if kind == "event" else QUARANTINE_MODELS[kind]
        agents = {review.agent_id for review in waiting}
        for row in model._default_manager.filter(agent__in=agents, pk__in=keys):
            found[row.agent_id, kind, str(row.pk)] = quarantined_text(row)
    for review in waiting:
        named = [(review.agent_id, kind, key) for kind, key in review.details.get("items", [])]
        review.texts = [found[one] for one in named if one in found]


def quarantined_texts(review: MemoryReview) -> list[str]:
    """The whole texts of the memories of a review; those of `texts_preload`, if that has read them."""
    if review.texts is None:
        return [quarantined_text(memory) for memory in quarantined_memories(review)]
    return review.texts


def review_state(review: MemoryReview) -> str:
    """The digest of the texts that a review is about. At most two queries, none for pairs of facts and for censors."""
    censor = review.censor
    parts: list[object] = [review.kind, review.proposal, *map(_fact, (review.old, review.new))]
    if censor is not None:
        parts += [censor.pattern, censor.match, censor.severity]
    if review.kind in MemoryReview.ABOUT_TEXTS:
        parts += quarantined_texts(review)
    elif review.facts:
        rows = Fact.objects.filter(agent=review.agent_id, pk__in=review.facts).order_by("pk")
        parts += map(_fact, rows)
    if review.subjects:
        named = Subject.objects.filter(agent=review.agent_id, pk__in=review.subjects).order_by("pk")
        parts += named.values_list("name", "merged_into")
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]


def row_state(review: MemoryReview) -> str:
    """The digest for a row of a list; "" for a review whose row does not show what it is about."""
    if review.kind == Kind.NEW_MEMORY:
        return review_state(review)
    return "" if review.kind == Kind.QUARANTINED or review.facts or review.subjects else review_state(review)


def _fact(fact: Fact | None) -> list[object]:
    return [fact.pk, fact.content, fact.active, fact.endorsed] if fact else []


BY = Principal.of_system("attributes")
ANSWERS = {
    MemoryReview.Resolution.REPLACE: Cardinality.ONE,
    MemoryReview.Resolution.BOTH: Cardinality.MANY,
}

Pair = tuple[Fact, Fact, Comparison]


def attribute_facts(review: MemoryReview) -> list[Fact]:
    """The active facts of the attribute, the oldest first: the facts of the review and all facts that state it."""
    stated = Q(attribute__in=attribute_spellings(review.details["attribute"])) & ~Q(value="")
    facts = Fact.objects.active().filter(Q(pk__in=review.facts) | stated, agent=review.agent_id, persona=review.persona)
    return list(facts.select_related("agent", "subject_alias").order_by("recorded_at", "pk"))


def attribute_pairs(review: MemoryReview) -> list[Pair]:
    """The facts that end if the attribute has one value at a time, each with its successor, in order."""
    facts = attribute_facts(review)
    known = known_subjects_of(review.agent_id, facts)
    read = [(fact, snapshot_of(fact, known)) for fact in facts]
    read.sort(key=cmp_to_key(_by_time))
    pairs = []
    for place, (fact, seen) in enumerate(read):
        for later, shown in read[place + 1 :]:
            if not comparable_facts(later, [fact], same_words=False):
                continue
            comparison = compare_facts(seen, shown)
            if comparison.kind is ComparisonKind.DIFFERS and comparison.later:
                pairs.append((fact, later, comparison))
                break
    return pairs


def _by_time(one: tuple[Fact, FactSnapshot], other: tuple[Fact, FactSnapshot]) -> int:
    return 1 if one[1].is_later_than(other[1]) else -1


def attribute_decide(review: MemoryReview, resolution: MemoryReview.Resolution, by: Principal) -> dict[str, Any]:
    """Store what a person decided and apply it to the facts that there are; returns the data for undoing it.

    Older values end as if the answer had been known when the newer ones were learned: what people verified, a more
    trusted source, a rule, and a fact under review do not; such a pair gets a review of its own.
    """
    decided = Attribute.objects.create(
        agent=review.agent,
        persona=review.persona,
        name=review.details["attribute"],
        cardinality=ANSWERS[resolution],
        decided_by=by.name[:200],
        decided_at=clock.now(),
    )
    joined = _joined(review)
    for pair in joined:
        pair.details = {}
        resolution_record(pair, resolution, by, comment=f"Decided for all of “{decided}”.")
    ended: list[str] = []
    if decided.cardinality == Cardinality.ONE:
        pairs = attribute_pairs(review)
        facts_lock(review.agent_id, [fact.pk for old, new, _ in pairs for fact in (old, new)])
        refused = []
        for old, new, comparison in pairs:
            if _end(review, old, new, comparison):
                ended.insert(0, str(old.pk))
            else:
                refused.append(PairReviewDraft(old, new, replace(comparison, kind=ComparisonKind.CHANGED)))
        _ask(refused, joined)
    return {"attribute": str(decided.pk), "ended": ended, "joined": [str(pair.pk) for pair in joined]}


def attribute_undecide(review: MemoryReview, by: Principal) -> None:
    """Forget what was decided; its pairs are asked about by this review again."""
    Attribute.objects.filter(agent=review.agent_id, pk=review.before["attribute"]).delete()
    pairs = MemoryReview.objects.filter(agent=review.agent_id, pk__in=review.before["joined"])
    for pair in pairs.select_for_update(of=("self",)).select_related("agent"):
        pair.details = {"question": str(review.pk)}
        review_reopen(pair, by)


def _joined(review: MemoryReview) -> list[MemoryReview]:
    """The pairs that wait for the answer to this review."""
    pairs = joined_pairs(review).select_related("agent")
    return list(pairs.select_for_update(of=("self",)).order_by("pk"))


def _ask(refused: Sequence[PairReviewDraft], joined: Sequence[MemoryReview]) -> None:
    """Ask about these pairs within the attention budget: by their own rows, where they had joined the review of the
    attribute."""
    waiting = {frozenset((pair.old_id, pair.new_id)): pair for pair in joined}
    for draft in refused:
        pair = waiting.get(frozenset((draft.old.pk, draft.new.pk)))
        if pair is not None:
            undecided_mark(pair, BY)
            review_reopen(pair, BY)
            undecided_ask(pair, BY, always=not is_budgeted(pair))
    pair_reviews_open(refused, by=BY)


def _end(review: MemoryReview, old: Fact, new: Fact, comparison: Comparison) -> bool:
    if not is_replaceable(old, new, replaceable_by(BY)):
        return False
    values = {"attribute": comparison.attribute, "old": comparison.old_value, "new": comparison.new_value}
    try:
        with transaction.atomic():
            fact_supersede(
                old=old,
                new=new,
                by=BY,
                reason=f"People decided that there is one {comparison.attribute} at a time.",
                evidence={"review": str(review.pk), "changed": values},
            )
    except (Invalid, Conflict, NotAllowed):
        return False
    return True
