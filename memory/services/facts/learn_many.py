"""Learn facts in bulk, with the same result as learning them one at a time, in order.

1. Find the comparison candidates of all facts in an in-memory index, and read them by one statement.
2. In order, compare each fact with its candidates, and with the earlier facts of the batch that a search would find.
3. Facts that are only stored, with or without reviews, are stored together. Any other fact is learned by itself, with
   the candidates that were found, after the facts before it have been stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import numpy as np
from numpy.typing import NDArray

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_shared, agent_transaction
from memory.comparison.learning_decision import FactMatch, decide_learning
from memory.models import Fact, MemoryReview, SubjectAlias
from memory.models.project_scope import scope_contains, scopes_overlap
from memory.services.facts.candidate_index import (
    DIGITS,
    CandidateIndex,
    IndexedFact,
    ScopeMasks,
    indexed_fact,
    length_weight,
    repeats_weight,
    to_float16,
    top_scored,
)
from memory.services.facts.comparison_candidates import (
    BY_SUBJECT,
    BY_WORDS,
    NEAREST,
    Vector,
    active_facts,
    comparable_facts,
    compare_with_facts,
    facts_stating,
    has_ended,
)
from memory.services.facts.fact_texts import FactText, digests_of_active_facts, read_fact_texts
from memory.services.facts.invalidated_facts import invalidated_match
from memory.services.facts.learn import (
    LearnResult,
    build_fact,
    learn_built_fact,
    replaceable_by,
    store_quarantined_fact,
)
from memory.services.facts.locks import facts_lock, learning_lock
from memory.services.facts.precheck import Precheck
from memory.services.facts.store import facts_store
from memory.services.quarantine.memories import scan_memory
from memory.services.reviews.attribute_question import asks_about_attribute, attribute_questions_open
from memory.services.reviews.open_review import PairReviewDraft, pair_reviews_open
from memory.services.subjects.fact_snapshots import known_subjects_of
from memory.services.subjects.registry import AliasLookup, AliasWriter, alias_find
from memory.subjects.sentence_subjects import KnownSubject
from memory.subjects.spelling import is_users
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid

TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class FactInput:
    """The arguments of `fact_learn`, and the embedding of the content."""

    fields: Mapping[str, Any]
    vector: Vector


@agent_transaction()
def facts_learn(
    *, agent: Agent, inputs: Sequence[FactInput], by: Principal, index: CandidateIndex
) -> list[LearnResult]:
    """Learn facts in the memory of `index`, in order, in one transaction; returns the result of each.

    Asks no judge and excludes no fact. The vectors must be of the index's model. Raises Invalid or Conflict as
    `fact_learn` does, with the path `facts[i]`, or NotAllowed; then nothing is stored.
    """
    learning_lock(agent, index.persona)
    with agent_lock_shared(agent.pk) as erasures:
        index.refresh(erasures)
    facts = []
    for number, key in enumerate(sorted(uuid4() for _ in inputs)):
        try:
            fact = build_fact(agent=agent, by=by, persona=index.persona, **inputs[number].fields)
        except (Invalid, Conflict) as error:
            raise _numbered(error, number) from error
        # Index rows are inserted in the order of the keys, and of equal candidates the older one is taken.
        fact.pk = key
        facts.append(fact)
    return _Batch(index, facts, [each.vector for each in inputs], by).learn() if facts else []


def _numbered(error: Invalid | Conflict, number: int) -> Invalid | Conflict:
    return type(error)(f"facts[{number}].{error.detail}", **error.extra)


Ranked = list[tuple[float, int]]
"""Scores with row numbers, the best first. Row numbers from the size of the index on are facts of the batch."""


@dataclass(slots=True)
class _Plan:
    """Comparison candidates of one fact in the index: row numbers by meaning, by words (in the same or a wider scope,
    and in a narrower one) and by subject."""

    nearest: Ranked
    words: tuple[Ranked, Ranked]
    by_subject: list[int]


@dataclass(slots=True)
class _Earlier:
    """A fact of the batch that is stored or pending."""

    number: int
    fact: Fact
    entry: IndexedFact
    text: FactText
    vector: Any
    length: float


@dataclass(slots=True)
class _Pending:
    """A fact that is stored with the next ones, and its matches that need a review."""

    number: int
    fact: Fact
    reviewed: Sequence[FactMatch]


@dataclass
class _Batch:
    index: CandidateIndex
    facts: list[Fact]
    vectors: list[Vector]
    by: Principal
    results: list[LearnResult] = field(default_factory=list)
    earlier: list[_Earlier] = field(default_factory=list)
    pending: list[_Pending] = field(default_factory=list)
    retired: set[UUID] = field(default_factory=set)

    def learn(self) -> list[LearnResult]:
        agent, persona, self.now = self.index.agent, self.index.persona, clock.now()
        self.may_replace = replaceable_by(self.by)
        self.texts = read_fact_texts(agent, self.facts)
        self.halves = np.stack([to_float16(vector.numbers) for vector in self.vectors])
        self.cosines = self.halves @ self.halves.T
        self.known_digests = digests_of_active_facts(agent, persona, [text.digest for text in self.texts])
        self.has_invalidated = Fact.objects.filter(agent=agent, persona=persona, invalidated_at__isnull=False).exists()
        self.spellings = AliasLookup(agent=agent, persona=persona, spellings=[fact.subject for fact in self.facts])
        self.entries = AliasWriter(agent=agent, persona=persona, lookup=self.spellings, by=self.by)
        self.known: dict[UUID, KnownSubject] = {}
        self._plan(0)
        last: datetime | None = None
        for number, fact in enumerate(self.facts):
            fact.recorded_at = max(clock.now(), last + TICK) if last else clock.now()
            last = fact.recorded_at
            self._learn(number, fact)
        self._flush()
        return self.results

    def _learn(self, number: int, fact: Fact) -> None:
        if (match := scan_memory(fact)) is not None:
            self._flush()
            self.results.append(store_quarantined_fact(fact=fact, by=self.by, match=match))
            return
        fact.subject_alias = self.spellings.find(fact.subject)
        was_unknown = fact.subject_alias is None and not is_users(fact.subject)
        near = self._near(number, fact)
        reviewed = self._matches_to_review(number, fact, near)
        if reviewed is not None:
            alias = self.entries.enter(fact.subject, fact.category)
            if alias is not None and alias != fact.subject_alias:
                fact.subject_alias = alias
                self._subject_entered(number, fact, alias, is_new=was_unknown)
            self.pending.append(_Pending(number, fact, reviewed))
            self.results.append(LearnResult("stored", fact))
            self._keep(number, fact)
            return
        self._flush()
        precheck = Precheck(self.vectors[number], near=near)
        try:
            result = learn_built_fact(fact=fact, by=self.by, precheck=precheck, may_replace=self.may_replace)
        except (Invalid, Conflict) as error:
            raise _numbered(error, number) from error
        self.results.append(result)
        found = alias_find(agent=fact.agent, persona=fact.persona, spelling=fact.subject)
        if found is not None and fact.subject_alias != found:
            self._subject_entered(number, result.fact, found, is_new=was_unknown)
        if result.fact.pk == fact.pk:
            self._keep(number, result.fact)
        if result.superseded:
            self.retired |= {old.pk for old in result.superseded}
            self._plan(number + 1)

    def _matches_to_review(self, number: int, fact: Fact, near: Mapping[UUID, float]) -> Sequence[FactMatch] | None:
        """The matches that need a review if the fact is only stored; None if it is confirmed, replaces facts or repeats
        an invalidated one, which is learned by itself."""
        if self.texts[number].digest in self.known_digests:
            return None
        olds = [self.olds[key] for key in near if key in self.olds]
        if len(olds) < len(near):
            # A candidate was retired in the meantime.
            return None
        olds.sort(key=lambda old: (old.recorded_at, old.pk))
        vector = self.vectors[number]
        matches = compare_with_facts(
            fact,
            comparable_facts(fact, olds, same_words=False),
            near=near,
            vector=vector,
            known=self.known,
            may_replace=self.may_replace,
            snapshots=self.index.snapshots,
        )
        decision = decide_learning(matches, {})
        if decision.confirm is not None or decision.supersede:
            return None
        if self.has_invalidated and invalidated_match(fact, vector=vector, by=self.by) is not None:
            return None
        return decision.ask

    def _keep(self, number: int, fact: Fact) -> None:
        text = self.texts[number]
        length = length_weight(text.words.values() or [1])
        self.known_digests.add(text.digest)
        if fact.held:
            # A quarantined fact is not found by searches.
            return
        self.olds[fact.pk] = fact
        self.earlier.append(_Earlier(number, fact, indexed_fact(fact), text, self.halves[number], length))

    def _flush(self) -> None:
        """Store the pending facts and open their reviews."""
        pending, self.pending = self.pending, []
        self.entries.store()
        new = {each.fact.pk: each.fact for each in pending}
        reviewed = [match.fact_id for each in pending for match in each.reviewed if match.fact_id not in new]
        olds = facts_lock(self.index.agent.pk, reviewed) | new
        drafts, of_attributes = (
            [
                PairReviewDraft(olds[match.fact_id], each.fact, match.comparison)
                for each in pending
                for match in each.reviewed
                if match.fact_id in olds and asks_about_attribute(match) is about_attribute
            ]
            for about_attribute in (False, True)
        )
        facts_store([(each.fact, self.vectors[each.number]) for each in pending], by=self.by)
        opened: dict[UUID | None, list[MemoryReview]] = {}
        for review in pair_reviews_open(drafts, by=self.by):
            opened.setdefault(review.new_id, []).append(review)
        for draft in of_attributes:
            opened.setdefault(draft.new.pk, []).extend(attribute_questions_open([draft], by=self.by))
        for each in pending:
            if reviews := opened.get(each.fact.pk):
                self.results[each.number] = LearnResult("queued", each.fact, reviews=tuple(reviews))

    def _subject_entered(self, number: int, fact: Fact, alias: SubjectAlias, *, is_new: bool) -> None:
        self.spellings.add(alias)
        if is_new:
            self.known[alias.pk] = KnownSubject(alias.subject_id, alias.subject.name, (alias.spelling,))
        else:
            # A subject with a new alias is recognised in more sentences, so the candidates are looked up again.
            self.entries.store()
            self._plan(number + 1, fact)

    def _plan(self, begin: int, *more: Fact) -> None:
        """Find and read the comparison candidates of the facts from `begin` on."""
        index, facts = self.index, self.facts[begin:]
        self.plans: dict[int, _Plan] = {}
        by_keys: dict[tuple[tuple[str, str], bool], list[int]] = {}
        for number, fact in enumerate(facts, begin):
            fact.subject_alias = self.spellings.find(fact.subject)
            by_keys.setdefault(((fact.project, fact.task), has_ended(fact, self.now)), []).append(number)
        subjects = {fact.subject_alias.subject_id for fact in facts if fact.subject_alias is not None}
        self.spelled: dict[UUID, list[UUID]] = {}
        rows = SubjectAlias.objects.filter(agent=index.agent, subject__in=subjects).values_list("subject_id", "pk")
        for subject_id, key in rows:
            self.spelled.setdefault(subject_id, []).append(key)
        masks_of_fact: dict[int, ScopeMasks] = {}
        nearest: dict[int, Ranked] = {}
        for (keys, ended), numbers in by_keys.items():
            masks = index.scope_masks(keys, self.retired, ended=ended, now=self.now)
            found = index.nearest(self.halves[numbers], masks.contains, NEAREST)
            nearest |= dict(zip(numbers, found, strict=True))
            masks_of_fact |= dict.fromkeys(numbers, masks)
        needed: set[UUID] = set()
        for number, fact in enumerate(facts, begin):
            masks, alias = masks_of_fact[number], fact.subject_alias
            places, ranks = index.sharing_words(self.texts[number])
            spelled = None if alias is None else self.spelled.get(alias.subject_id, [])
            plan = _Plan(
                nearest[number],
                (_among(places, ranks, masks.contains), _among(places, ranks, masks.narrower)),
                index.by_subject(spelled, fact.subject.lower(), masks.overlaps, BY_SUBJECT),
            )
            self.plans[number] = plan
            ranked = (*plan.nearest, *plan.words[0], *plan.words[1])
            needed.update(index.rows[place].id for place in (*(place for _, place in ranked), *plan.by_subject))
        self.olds = {old.pk: old for old in active_facts(self.facts[0], needed)}
        self.olds |= {each.fact.pk: each.fact for each in self.earlier}
        self.known.update(known_subjects_of(index.agent.pk, [*self.olds.values(), *facts, *more]))

    def _near(self, number: int, fact: Fact) -> dict[UUID, float]:
        """Comparison candidates of a fact in the index and the batch, as `comparison_candidates` would find them."""
        plan, text, size = self.plans[number], self.texts[number], len(self.index.rows)
        nearest = list(plan.nearest)
        words = [list(each) for each in plan.words]
        by_subject: list[int] = []
        stating: set[int] = set()
        subject_id = fact.subject_alias.subject_id if fact.subject_alias else None
        lowered = fact.subject.lower()
        cosines = self.cosines[number]
        for place, old in enumerate(self.earlier, size):
            if old.fact.pk in self.retired or has_ended(old.fact, self.now) != has_ended(fact, self.now):
                continue
            is_narrower = False
            if old.entry.keys != ("", ""):
                if not scopes_overlap(old.fact, fact):
                    continue
                is_narrower = not scope_contains(old.fact, fact)
            if not is_narrower:
                nearest.append((float(cosines[old.number]), place))
            shared = text.query & old.text.words.keys()
            if shared:
                rank = sum(repeats_weight(old.text.words[word]) for word in shared) / old.length
                words[is_narrower].append((round(rank, DIGITS), place))
            alias = old.fact.subject_alias
            same = (
                alias is not None and alias.subject_id == subject_id
                if subject_id
                else bool(lowered) and lowered == old.entry.subject
            )
            if same:
                by_subject.append(place)
            if fact.attribute and old.fact.attribute and (same or old.entry.subject == lowered):
                stating.add(place)
        kept = stating | {place for _, place in _cut(nearest, NEAREST)}
        for ranked in words:
            kept |= {place for _, place in _cut(ranked, BY_WORDS)}
        # Those of the batch are the latest.
        kept.update([*reversed(by_subject), *plan.by_subject][:BY_SUBJECT])
        found = dict.fromkeys(set(facts_stating(fact)) - self.retired, 0.0)
        new = self.halves[number]
        for place in kept:
            if place < size:
                key, numbers = self.index.rows[place].id, self.index.vector_of(place)
            else:
                old = self.earlier[place - size]
                key, numbers = old.fact.pk, old.vector
            if key not in self.retired:
                found[key] = 0.0 if numbers is None else float(numbers @ new)
        return found


def _among(places: NDArray[np.intp], ranks: NDArray[np.float64], mask: NDArray[np.bool_] | None) -> Ranked:
    if mask is None:
        return []
    chosen = mask[places]
    return top_scored(places[chosen], ranks[chosen], BY_WORDS)


def _cut(ranked: Ranked, limit: int) -> Ranked:
    return sorted(ranked, key=lambda each: (-each[0], each[1]))[:limit]
