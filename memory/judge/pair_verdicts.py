"""Ask a judge about pairs of facts: several in one call, and again alone those that have no valid verdict.

Models err. Where only the judge sees a relation, a verdict that would retire a fact needs a second one, with the two
facts exchanged: one wrong verdict in twenty would otherwise end a fact in ten, since each new fact meets several.
"""

import time
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from identity.models import Agent
from memory.comparison.compare_facts import MIN_VERDICT_CONFIDENCE
from memory.comparison.fact_snapshot import FactSnapshot
from memory.judge.model_judge import Judge
from memory.judge.protocol import (
    ASK_WITHIN_SECONDS,
    MAX_CALL_SECONDS,
    JudgeFailed,
    JudgeResult,
    JudgeUnavailable,
    Relation,
    RelationVerdict,
)

MAX_CALL_CHARACTERS = 12_000
"""Of the facts in a call about several pairs: small models read little, and long questions take long."""

_CHANGES = frozenset({Relation.UPDATE, Relation.CONTRADICTION})
_AGREEING = {
    **dict.fromkeys(_CHANGES, _CHANGES),
    Relation.DUPLICATE: frozenset({Relation.DUPLICATE, Relation.REFINEMENT}),
}
"""The relations that retire a fact or ask people, each with what confirms it when the facts are exchanged."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class FactPair:
    """`trust` is the least trusted class of the two. Pairs of different classes never share a call: the text of a page
    of the web must not be able to talk the judge into a verdict about a person's words. `related`: the comparison by
    words sees a relation too."""

    old: FactSnapshot
    new: FactSnapshot
    trust: str
    related: bool = True

    @property
    def exchanged(self) -> "FactPair":
        return FactPair(self.new, self.old, self.trust)

    @property
    def characters(self) -> int:
        return sum(len(fact.content) + len(fact.subject) for fact in (self.old, self.new))


@dataclass(slots=True)
class PairVerdicts(Generic[Key]):
    """`tokens`: of all calls that were answered. `error`: why pairs have no verdict, None if each has one."""

    verdicts: dict[Key, JudgeResult[RelationVerdict]] = field(default_factory=dict)
    tokens: int = 0
    error: JudgeFailed | None = None


def pairs_judge(
    judge: Judge, *, agent: Agent, persona: str, pairs: Mapping[Key, FactPair], again: bool = True
) -> PairVerdicts[Key]:
    """Ask about `pairs` in as few calls as their number, size and trust allow, and `again` about each that is left.

    It takes MAX_CALL_SECONDS at most, or without `again` a little more than ASK_WITHIN_SECONDS, and ends when the judge
    is unavailable. It does not raise JudgeFailed.
    """
    asked: PairVerdicts[Key] = PairVerdicts()
    calls = list(_calls(pairs, judge.pairs_at_once))
    began = time.monotonic()
    ends = began + (MAX_CALL_SECONDS if again else ASK_WITHIN_SECONDS + judge.timeout)
    for number, keys in enumerate(calls):
        if _may_ask(judge, asked, ends) or not number:
            _ask(judge, agent, persona, {key: pairs[key] for key in keys}, asked, ends)
    if again:
        for key in [key for keys in calls if len(keys) > 1 for key in keys if key not in asked.verdicts]:
            if _may_ask(judge, asked, ends) and time.monotonic() - began < ASK_WITHIN_SECONDS:
                _ask(judge, agent, persona, {key: pairs[key]}, asked, ends)
    _confirm(judge, agent, persona, pairs, asked, ends)
    if len(asked.verdicts) == len(pairs):
        asked.error = None
    elif asked.error is None:
        asked.error = JudgeFailed("The judge did not answer about each pair.", retryable=True)
    return asked


def _may_ask(judge: Judge, asked: PairVerdicts[Key], ends: float) -> bool:
    return time.monotonic() + judge.timeout <= ends and not isinstance(asked.error, JudgeUnavailable)


def _confirm(
    judge: Judge,
    agent: Agent,
    persona: str,
    pairs: Mapping[Key, FactPair],
    asked: PairVerdicts[Key],
    ends: float,
) -> None:
    """Ask a second time about the pairs of which only the judge says that one of them ends. A verdict that is not
    confirmed becomes "unrelated"; one whose second could not be had is dropped, to be asked for later."""
    alone = {
        key: pairs[key].exchanged
        for key, found in asked.verdicts.items()
        if not pairs[key].related
        and found.value.relation in _AGREEING
        and found.value.confidence >= MIN_VERDICT_CONFIDENCE
    }
    second: PairVerdicts[Key] = PairVerdicts()
    for keys in _calls(alone, judge.pairs_at_once):
        if _may_ask(judge, asked, ends):
            _ask(judge, agent, persona, {key: alone[key] for key in keys}, second, ends)
    asked.tokens += second.tokens
    asked.error = asked.error or second.error
    for key in alone:
        first, other = asked.verdicts.pop(key), second.verdicts.get(key)
        if other is None:
            continue
        agrees = other.value.relation in _AGREEING[first.value.relation]
        asked.verdicts[key] = first if agrees else replace(first, value=_not_confirmed(first.value, other.value))


def _not_confirmed(first: RelationVerdict, second: RelationVerdict) -> RelationVerdict:
    reason = f"Asked twice, the judge said {first.relation} and {second.relation}: {first.reason}"[:1000]
    return first.model_copy(update={"relation": Relation.UNRELATED, "reason": reason})


def _calls(pairs: Mapping[Key, FactPair], at_once: int) -> Iterator[list[Key]]:
    """The keys of the pairs of each call."""
    by_trust: dict[str, list[Key]] = {}
    for key, pair in pairs.items():
        by_trust.setdefault(pair.trust, []).append(key)
    for keys in by_trust.values():
        call: list[Key] = []
        room = MAX_CALL_CHARACTERS
        for key in keys:
            size = pairs[key].characters
            if call and (len(call) >= at_once or size > room):
                yield call
                call, room = [], MAX_CALL_CHARACTERS
            call.append(key)
            room -= size
        yield call


def _ask(
    judge: Judge, agent: Agent, persona: str, pairs: Mapping[Key, FactPair], asked: PairVerdicts[Key], ends: float
) -> None:
    """Ask about `pairs` in one call; adds its verdicts, tokens or error to `asked`."""
    keys = list(pairs)
    both = [(pair.old, pair.new) for pair in pairs.values()]
    try:
        if len(both) == 1:
            ((old, new),) = both
            asked.verdicts[keys[0]] = single = judge.relation(agent=agent, persona=persona, old=old, new=new, ends=ends)
            asked.tokens += single.tokens
            return
        several = judge.relations(agent=agent, persona=persona, pairs=both, ends=ends)
    except JudgeFailed as failed:
        asked.error = failed
        return
    asked.tokens += several.tokens
    for verdict in several.value.verdicts:
        if verdict.pair <= len(keys):
            said = RelationVerdict.model_validate(verdict.model_dump(exclude={"pair"}))
            asked.verdicts[keys[verdict.pair - 1]] = JudgeResult(
                said, several.call_id, several.model, several.prompt_version, several.tokens
            )
