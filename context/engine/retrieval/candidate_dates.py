"""When candidates were told, by which their lines are dated and compared with the conversation."""

from collections.abc import Sequence
from dataclasses import replace

from context.engine.analysis.agent_time import LineClock, repeated_slots
from context.engine.analysis.request import ResolvedRequest
from context.engine.assembly import Candidate
from context.engine.retrieval.fixed_sections import Pins
from context.engine.retrieval.loops import loop_hit_text
from context.engine.retrieval.restatement import repeated_in
from context.engine.section_budgets import MEMORY_SECTIONS
from memory.search.result import SearchHit
from nousweb.lib.dated_lines import Told, line_dated

MAX_COMPARED_WITH_CONVERSATION = 60
"""Candidates that are compared with the conversation, the most relevant first: each takes a few milliseconds once."""


def candidates_repeated(candidates: Sequence[Candidate], resolved: ResolvedRequest) -> dict[int, int]:
    """The places of candidates that could be included and that the conversation states, with `duplicate_of` of each."""
    relevant = [place for place, candidate in enumerate(candidates) if candidate.is_relevant]
    best = sorted(relevant, key=lambda place: -candidates[place].hit.score)[:MAX_COMPARED_WITH_CONVERSATION]
    request = resolved.request
    hits = [candidates[place].hit for place in best]
    told = [candidates[place].told for place in best]
    texts = [loop_hit_text(hit) if hit.type == "loop" else hit.content for hit in hits]
    dated = [line_dated(text, when)[0] if when else text for text, when in zip(texts, told, strict=True)]
    text, conversation = request.input, request.conversation
    if dated != texts:
        # "Yesterday" of another day says something else.
        now = resolved.clock.told_now
        text = line_dated(text, now)[0]
        conversation = tuple(replace(each, content=line_dated(each.content, now)[0]) for each in conversation)
    said = repeated_in(dated, conversation, resolved.budget.window, text)
    return {best[place]: number for place, number in said.items()}


def candidates_date(candidates: Sequence[Candidate], pins: Pins, clock: LineClock) -> None:
    """Set when the candidates were told. Those that no filter lets through have no line."""
    facts = [candidate for candidate in candidates if candidate.hit.type == "fact" and candidate.is_relevant]
    several = repeated_slots((candidate.label, candidate.hit.attribute) for candidate in facts)
    for candidate in candidates:
        hit = candidate.hit
        if candidate.is_relevant or candidate.key in pins:
            always = (candidate.label, hit.attribute) in several
            candidate.told = told_of(hit, clock, always=always)
            candidate.label = candidate.told.day if candidate.told.dated else candidate.label


def told_of(hit: SearchHit, clock: LineClock, *, always: bool = False) -> Told:
    """When a memory was told. Only a fact may speak of another time than that of its record."""
    if hit.type == "fact":
        times = hit.happened_at, hit.recorded_at
        return clock.fact_told(hit.content, hit.attribute, *times, always=always, changed=hit.source_changed_at)
    dated = MEMORY_SECTIONS[hit.type].item_label == "date"
    return clock.told(hit.happened_at, hit.happened_at, dated=dated, changed=hit.source_changed_at)
