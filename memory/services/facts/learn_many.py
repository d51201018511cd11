"""Learning many facts at once, with what learning them one by one, in their order, comes to.

1. What each may have to be compared with is looked for in an index in memory, and read by one statement for all.
2. In their order each is compared with that, and with those of the earlier ones that would be found beside it.
3. What is only stored, with or without questions to people, is stored together with others of the kind. Any other one
   is learned by itself, with the candidates that were found, when those before it are stored.
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
from memory.comparison.resolution import FactMatch, resolve
from memory.models import Fact, MemoryReview, SubjectAlias
from memory.models.project_scope import covers, meet
from memory.services.facts.candidate_index import (
    DIGITS,
    CandidateIndex,
    HeldFact,
    Reach,
    best,
    halves_of,
    held_of,
    length_weight,
    repeats_weight,
)
from memory.services.facts.comparison_candidates import (
    BY_SUBJECT,
    BY_WORDS,
    NEAREST,
    Nearness,
    Vector,
    comparable_of,
    facts_of,
    others_compare,
)
from memory.services.facts.fact_texts import FactText, same_words_known, texts_read
from memory.services.facts.learn import LearnResult, draft_learn, fact_draft, fact_hold, replaceable_by
from memory.services.facts.locks import facts_lock, learning_lock
from memory.services.facts.precheck import Precheck
from memory.services.facts.rejected_facts import rejected_like
from memory.services.facts.store import facts_store
from memory.services.holds import memory_finding
from memory.services.reviews.opening import PairQuestion, pair_reviews_open
from memory.services.subjects.fact_snapshots import known_subjects_of
from memory.services.subjects.registry import KnownSpellings, SpellingEntries, alias_find
from memory.subjects.mentions import KnownSubject
from memory.subjects.spelling import is_users
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid

TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class FactInput:
    """What `fact_learn` would be given, and the embedding of the content."""

    fields: Mapping[str, Any]
    vector: Vector


@agent_transaction()
def facts_learn(
    *, agent: Agent, inputs: Sequence[FactInput], by: Principal, index: CandidateIndex
) -> list[LearnResult]:
    """Learn facts in the memory that `index` holds, in their order, in one transaction; what became of each.

    No judge is asked, and no fact excluded. The vectors are of the model of the index. Raises Invalid or Conflict as
    `fact_learn` does, for `facts[i]`, NotAllowed; then nothing is stored.
    """
    learning_lock(agent, index.persona)
    with agent_lock_shared(agent.pk) as erasures:
        index.refresh(erasures)
    facts = []
    for number, key in enumerate(sorted(uuid4() for _ in inputs)):
        try:
            fact = fact_draft(agent=agent, by=by, persona=index.persona, **inputs[number].fields)
        except (Invalid, Conflict) as error:
            raise _numbered(error, number) from error
        # In order, as rows of the index are inserted by it: of candidates that are equal the older one counts.
        fact.pk = key
        facts.append(fact)
    return _Batch(index, facts, [each.vector for each in inputs], by).learn() if facts else []


def _numbered(error: Invalid | Conflict, number: int) -> Invalid | Conflict:
    return type(error)(f"facts[{number}].{error.detail}", **error.extra)


Ranked = list[tuple[float, int]]
"""Places with their scores, the best first. Places from the size of the index on are of the batch."""


@dataclass(slots=True)
class _Plan:
    """What of the index a fact would be compared with: the best of each kind, those that come up wherever it does and
    those that meet it besides, apart."""

    nearest: Ranked
    words: tuple[Ranked, Ranked]
    about: list[int]


@dataclass(slots=True)
class _Earlier:
    """A fact of the batch that is stored, or will be."""

    number: int
    fact: Fact
    held: HeldFact
    text: FactText
    vector: Any
    length: float


@dataclass(slots=True)
class _Waiting:
    """A fact that is stored with the next ones, and the facts beside which people are asked about it."""

    number: int
    fact: Fact
    asked: Sequence[FactMatch]


@dataclass
class _Batch:
    index: CandidateIndex
    facts: list[Fact]
    vectors: list[Vector]
    by: Principal
    results: list[LearnResult] = field(default_factory=list)
    earlier: list[_Earlier] = field(default_factory=list)
    waiting: list[_Waiting] = field(default_factory=list)
    retired: set[UUID] = field(default_factory=set)

    def learn(self) -> list[LearnResult]:
        agent, persona = self.index.agent, self.index.persona
        self.may_replace = replaceable_by(self.by)
        self.texts = texts_read(agent, self.facts)
        self.halves = np.stack([halves_of(vector.numbers) for vector in self.vectors])
        self.cosines = self.halves @ self.halves.T
        self.known_digests = same_words_known(agent, persona, [text.digest for text in self.texts])
        self.any_wrong = Fact.objects.filter(agent=agent, persona=persona, invalidated_at__isnull=False).exists()
        self.spellings = KnownSpellings(agent=agent, persona=persona, spellings=[fact.subject for fact in self.facts])
        self.entries = SpellingEntries(agent=agent, persona=persona, known=self.spellings, by=self.by)
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
        if (hostile := memory_finding(fact)) is not None:
            self._flush()
            self.results.append(fact_hold(fact=fact, by=self.by, found=hostile))
            return
        fact.subject_alias = self.spellings.find(fact.subject)
        was_unknown = fact.subject_alias is None and not is_users(fact.subject)
        near = self._near(number, fact)
        asked = self._questioned(number, fact, near)
        if asked is not None:
            alias = self.entries.enter(fact.subject, fact.category)
            if alias is not None and alias != fact.subject_alias:
                fact.subject_alias = alias
                self._subject_entered(number, fact, alias, is_new=was_unknown)
            self.waiting.append(_Waiting(number, fact, asked))
            self.results.append(LearnResult("stored", fact))
            self._keep(number, fact)
            return
        self._flush()
        precheck = Precheck(self.vectors[number], near=near)
        try:
            result = draft_learn(fact=fact, by=self.by, precheck=precheck, may_replace=self.may_replace)
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

    def _questioned(self, number: int, fact: Fact, near: Mapping[UUID, Nearness]) -> Sequence[FactMatch] | None:
        """What people are asked about, if a fact is to be stored and nothing else is done; else None."""
        if self.texts[number].digest in self.known_digests:
            return None
        olds = [self.olds[key] for key in near if key in self.olds]
        if len(olds) < len(near):
            # Retired by somebody since.
            return None
        olds.sort(key=lambda old: (old.recorded_at, old.pk))
        vector = self.vectors[number]
        matches = others_compare(
            fact,
            comparable_of(fact, olds, same_words=False),
            near=near,
            vector=vector,
            known=self.known,
            may_replace=self.may_replace,
            snapshots=self.index.snapshots,
        )
        decision = resolve(matches, {})
        if decision.confirm is not None or decision.supersede:
            return None
        if self.any_wrong and rejected_like(fact, vector=vector) is not None:
            return None
        return decision.ask

    def _keep(self, number: int, fact: Fact) -> None:
        text = self.texts[number]
        length = length_weight(text.words.values() or [1])
        self.known_digests.add(text.digest)
        if fact.held:
            # No search finds it.
            return
        self.olds[fact.pk] = fact
        self.earlier.append(_Earlier(number, fact, held_of(fact), text, self.halves[number], length))

    def _flush(self) -> None:
        """Store what waits, and ask about it."""
        waiting, self.waiting = self.waiting, []
        self.entries.store()
        new = {each.fact.pk: each.fact for each in waiting}
        asked = [match.fact_id for each in waiting for match in each.asked if match.fact_id not in new]
        olds = facts_lock(self.index.agent.pk, asked) | new
        questions = [
            PairQuestion(olds[match.fact_id], each.fact, match.comparison)
            for each in waiting
            for match in each.asked
            if match.fact_id in olds
        ]
        for question in questions:
            if question.contradicts and question.new.contradiction_of_id is None:
                question.new.contradiction_of = question.old
        facts_store([(each.fact, self.vectors[each.number]) for each in waiting], by=self.by)
        opened: dict[UUID | None, list[MemoryReview]] = {}
        for review in pair_reviews_open(questions, by=self.by):
            opened.setdefault(review.new_id, []).append(review)
        for each in waiting:
            if reviews := opened.get(each.fact.pk):
                self.results[each.number] = LearnResult("queued", each.fact, reviews=tuple(reviews))

    def _subject_entered(self, number: int, fact: Fact, alias: SubjectAlias, *, is_new: bool) -> None:
        self.spellings.add(alias)
        if is_new:
            self.known[alias.pk] = KnownSubject(alias.subject_id, alias.subject.name, (alias.spelling,))
        else:
            # What is known under one more name is read otherwise, wherever it is named.
            self.entries.store()
            self._plan(number + 1, fact)

    def _plan(self, begin: int, *more: Fact) -> None:
        """Find what the facts from `begin` on would be compared with, and read it."""
        index, facts = self.index, self.facts[begin:]
        self.plans: dict[int, _Plan] = {}
        by_keys: dict[tuple[str, str], list[int]] = {}
        for number, fact in enumerate(facts, begin):
            fact.subject_alias = self.spellings.find(fact.subject)
            by_keys.setdefault((fact.project, fact.task), []).append(number)
        subjects = {fact.subject_alias.subject_id for fact in facts if fact.subject_alias is not None}
        self.spelled: dict[UUID, list[UUID]] = {}
        rows = SubjectAlias.objects.filter(agent=index.agent, subject__in=subjects).values_list("subject_id", "pk")
        for subject_id, key in rows:
            self.spelled.setdefault(subject_id, []).append(key)
        reaches: dict[int, Reach] = {}
        nearest: dict[int, Ranked] = {}
        for keys, numbers in by_keys.items():
            reach = index.reach(keys, self.retired)
            found = index.nearest(self.halves[numbers], reach.covers, NEAREST)
            nearest |= dict(zip(numbers, found, strict=True))
            reaches |= dict.fromkeys(numbers, reach)
        needed: set[UUID] = set()
        for number, fact in enumerate(facts, begin):
            reach, alias = reaches[number], fact.subject_alias
            places, ranks = index.sharing_words(self.texts[number])
            spelled = None if alias is None else self.spelled.get(alias.subject_id, [])
            plan = _Plan(
                nearest[number],
                (_among(places, ranks, reach.covers), _among(places, ranks, reach.beyond)),
                index.about(spelled, fact.subject.lower(), reach.meets, BY_SUBJECT),
            )
            self.plans[number] = plan
            ranked = (*plan.nearest, *plan.words[0], *plan.words[1])
            needed.update(index.rows[place].id for place in (*(place for _, place in ranked), *plan.about))
        self.olds = {old.pk: old for old in facts_of(self.facts[0], needed)}
        self.olds |= {each.fact.pk: each.fact for each in self.earlier}
        self.known.update(known_subjects_of(index.agent.pk, [*self.olds.values(), *facts, *more]))

    def _near(self, number: int, fact: Fact) -> dict[UUID, Nearness]:
        """What of the index and of the batch is compared with a fact, as `comparison_candidates` would find it."""
        plan, text, size = self.plans[number], self.texts[number], len(self.index.rows)
        nearest = list(plan.nearest)
        words = [list(each) for each in plan.words]
        about: list[int] = []
        subject_id = fact.subject_alias.subject_id if fact.subject_alias else None
        lowered = fact.subject.lower()
        cosines = self.cosines[number]
        for place, old in enumerate(self.earlier, size):
            if old.fact.pk in self.retired:
                continue
            beyond = False
            if old.held.keys != ("", ""):
                if not meet(old.fact, fact):
                    continue
                beyond = not covers(old.fact, fact)
            if not beyond:
                nearest.append((float(cosines[old.number]), place))
            shared = text.query & old.text.words.keys()
            if shared:
                rank = sum(repeats_weight(old.text.words[word]) for word in shared) / old.length
                words[beyond].append((round(rank, DIGITS), place))
            alias = old.fact.subject_alias
            same = (
                alias is not None and alias.subject_id == subject_id
                if subject_id
                else bool(lowered) and lowered == old.held.subject
            )
            if same:
                about.append(place)
        kept = {place for _, place in _cut(nearest, NEAREST)}
        for ranked in words:
            kept |= {place for _, place in _cut(ranked, BY_WORDS)}
        # Those of the batch are the latest.
        kept.update([*reversed(about), *plan.about][:BY_SUBJECT])
        found: dict[UUID, Nearness] = {}
        local = self.vectors[number].of_local_model is not None
        new = self.halves[number]
        for place in kept:
            if place < size:
                key, numbers = self.index.rows[place].id, self.index.vector_of(place)
            else:
                old = self.earlier[place - size]
                key, numbers = old.fact.pk, old.vector
            if key in self.retired:
                continue
            if numbers is None:
                found[key] = (0.0, None)
            else:
                found[key] = (float(numbers @ new), numbers.astype(np.float64) if local else None)
        return found


def _among(places: NDArray[np.intp], ranks: NDArray[np.float64], mask: NDArray[np.bool_] | None) -> Ranked:
    if mask is None:
        return []
    chosen = mask[places]
    return best(places[chosen], ranks[chosen], BY_WORDS)


def _cut(ranked: Ranked, limit: int) -> Ranked:
    return sorted(ranked, key=lambda each: (-each[0], each[1]))[:limit]
