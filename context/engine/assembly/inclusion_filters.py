"""The filters of candidates before the budget. Each refusal has a reason, and a hint that would avoid it."""

from collections.abc import Iterable
from datetime import UTC

from context.engine.analysis.request import ResolvedRequest
from context.engine.assembly.verdicts import THE_INPUT, Candidate, Verdict, VerdictCode
from memory.models import ItemType, Validity, scope_label
from memory.search.result import Retirement

PREFERRED_FACTOR = 1.15
FILE_FACTOR = 1.25
TAG_FACTOR = 1.1
RECENCY_HALF_LIFE_DAYS = 7.0


def score_of(candidate: Candidate, resolved: ResolvedRequest) -> tuple[float, tuple[tuple[str, float], ...]]:
    """Relevance multiplied by usage, preference, mentioned files, shared tags and recency (seed 005.1 D3, D5)."""
    hit = candidate.hit
    factors: list[tuple[str, float]] = []
    if candidate.boost != 1.0:
        factors.append(("usage", candidate.boost))
    if not candidate.kinds.isdisjoint(resolved.profile.preferred_kinds):
        factors.append(("preferred kind", PREFERRED_FACTOR))
    if resolved.files:
        source = str(hit.metadata.get("source", ""))
        if any(file in hit.content or file in source for file in resolved.files):
            factors.append(("mentioned file", FILE_FACTOR))
    if resolved.request.tags and not set(hit.tags).isdisjoint(resolved.request.tags):
        factors.append(("shared tag", TAG_FACTOR))
    weight = resolved.analysis.plan.recency_of(hit.type)
    if weight > 0:
        age_days = max(0.0, (resolved.now - hit.happened_at).total_seconds() / 86_400)
        recency = 0.5 ** (age_days / RECENCY_HALF_LIFE_DAYS)
        factors.append(("recency", 1.0 - weight + weight * recency))
    score = hit.score
    for _, factor in factors:
        score *= factor
    return score, tuple(factors)


SHOWN_CHARACTERS = 120
"""Maximum characters of a superseding memory's text in the reason of a verdict."""


def candidates_filter(
    candidates: Iterable[Candidate], resolved: ResolvedRequest
) -> tuple[list[Verdict], list[Verdict]]:
    """Split candidates into those that pass, best first, and those that are left out.

    Candidates of equal score that were requested by time are ordered latest first, the others by type and id, so that
    equal inputs give equal prompts.
    """
    scored = [Verdict(candidate, *score_of(candidate, resolved)) for candidate in candidates]
    # Pinned candidates come first, so that of two with the same words the pinned one stays.
    keys = [
        (not entry.candidate.pinned, -entry.score, *_age(entry.candidate), *entry.candidate.key) for entry in scored
    ]
    scored = [scored[place] for place in sorted(range(len(scored)), key=keys.__getitem__)]
    # Of a fact and anything else in the same words the fact stays: it says whether it is contested.
    turns = [(not entry.candidate.pinned, entry.candidate.hit.type != "fact") for entry in scored]
    refusals: dict[int, Verdict] = {}
    seen: dict[str, Candidate] = {}
    for place in sorted(range(len(scored)), key=turns.__getitem__):
        entry = scored[place]
        # The same but for spacing and the last full stop.
        words = " ".join(entry.candidate.hit.content.split()).rstrip(".!")
        refusal = _refusal(entry, resolved, seen.get(words))
        if refusal is None:
            seen.setdefault(words, entry.candidate)
        else:
            refusals[place] = refusal
    passed = [entry for place, entry in enumerate(scored) if place not in refusals]
    return passed, [refusals[place] for place in sorted(refusals)]


def unfound(candidate: Candidate, resolved: ResolvedRequest) -> Verdict:
    """The verdict on a memory that the search did not find, though an included fact refers to it."""
    entry = Verdict(candidate, *score_of(candidate, resolved))
    refusal = _refusal(entry, resolved, None)
    if refusal is not None and refusal.code != VerdictCode.BELOW_THRESHOLD:
        return refusal
    hint = "More of the question's words in the memory."
    return entry.refusal(VerdictCode.BELOW_THRESHOLD, "The search did not find it for this input.", hint)


def _age(candidate: Candidate) -> tuple[float, int]:
    if not candidate.by_time:
        return 0.0, 0
    hit = candidate.hit
    # Events of one call share a moment; their ids rise in the order in which they came.
    return -hit.happened_at.timestamp(), -int(hit.id) if hit.type == "event" else 0


def _refusal(entry: Verdict, resolved: ResolvedRequest, same: Candidate | None) -> Verdict | None:
    """Why a candidate is left out, None where it is not; `same` is one of the same words that is not."""
    candidate, hit, refuse = entry.candidate, entry.candidate.hit, entry.refusal
    if not resolved.request.scope.shows(hit):
        place = scope_label(hit)
        hint = f"A request for {place}, or one that asks for other projects."
        return refuse(VerdictCode.OTHER_PROJECT, f"Belongs to {place}.", hint)
    if retirement := hit.retirement:
        on, earlier = _on(retirement), _in_the_past(candidate, retirement)
        if retirement.validity == Validity.EXPIRED:
            return refuse(VerdictCode.EXPIRED, f"Expired{on}.", f"{earlier}Learn it again, if it is still true.")
        if retirement.validity == Validity.NOT_YET_VALID:
            return refuse(VerdictCode.NOT_YET_VALID, f"Its valid time begins{on}.", "A request from then on.")
        if retirement.successor:
            by = f"“{shortened(retirement.successor_text)}”" if retirement.successor_text else retirement.successor
            hint = f"{earlier}Restore it, if the new one is wrong."
            return refuse(VerdictCode.SUPERSEDED, f"Replaced{on} by {by}.", hint)
        if retirement.was_invalidated:
            return refuse(VerdictCode.RETIRED, f"Marked as wrong{on}.", "Restore it, if it is true after all.")
        return refuse(VerdictCode.RETIRED, f"Retired{on}.", f"{earlier}Restore it, if it is still true.")
    if not candidate.kinds.isdisjoint(resolved.profile.excluded_kinds):
        excluded = ", ".join(sorted(candidate.kinds.intersection(resolved.profile.excluded_kinds)))
        told = f"The profile excludes {excluded.replace('_', ' ')}."
        return refuse(VerdictCode.EXCLUDED_KIND, told, "Another profile.")
    if not resolved.profile.trusts(hit.type, hit.trust):
        return refuse(
            VerdictCode.LOW_TRUST,
            f"It comes from: {hit.trust}. The profile excludes {hit.type}s from there.",
            "Let a person confirm it, or use another profile.",
        )
    if candidate.pinned:
        return None
    if not resolved.limits.get(hit.type, 0):
        return refuse(
            VerdictCode.NOT_PLANNED,
            f"The plan retrieves no {hit.type}s for this input.",
            f"An input that mentions {hit.type}s.",
        )
    min_importance = resolved.profile.min_importance
    if hit.importance < min_importance:
        missing = min_importance - hit.importance
        return refuse(
            VerdictCode.LOW_IMPORTANCE,
            f"Importance {hit.importance:.2f} is {missing:.2f} below the profile's minimum.",
            f"An importance of {min_importance:.2f}.",
        )
    if hit.score < candidate.threshold and not candidate.by_time:
        missing = candidate.threshold - hit.score
        return refuse(
            VerdictCode.BELOW_THRESHOLD,
            f"Relevance {hit.score:.2f} is {missing:.2f} below the threshold of {candidate.threshold:.2f}.",
            "More of the question's words in the memory, or a pin on it.",
        )
    if candidate.outranked:
        return refuse(
            VerdictCode.OVER_LIMIT,
            f"Its score is far below those of the {resolved.limits[hit.type]} {hit.type}s that are retrieved.",
            "More of the question's words in the memory, or a larger budget.",
        )
    if candidate.repeats_invalidated:
        return refuse(
            VerdictCode.INVALIDATED,
            f"It states the same as a fact that people marked as wrong: “{shortened(candidate.repeats_invalidated)}”.",
            "Restore that fact, if it is true after all; or let a person change or pin this memory.",
        )
    if candidate.duplicate_of == THE_INPUT:
        return refuse(VerdictCode.DUPLICATE_INPUT, "The input states it already.", "An input that does not state it.")
    if candidate.duplicate_of is not None:
        return refuse(
            VerdictCode.DUPLICATE_MESSAGE,
            f"Message {candidate.duplicate_of} of the conversation states it already.",
            "A conversation without that message.",
        )
    if same is not None and not _of_two_things(same, candidate):
        return refuse(VerdictCode.DUPLICATE_ITEM, f"Same words as {' '.join(same.key)}.", "A different text.")
    return None


def _of_two_things(one: Candidate, other: Candidate) -> bool:
    """Whether two facts of the same words hold of two things: they are stored so only where people said it."""
    both_facts = one.hit.type == other.hit.type == ItemType.FACT
    return both_facts and bool(one.label and other.label) and one.label != other.label


def _on(retirement: Retirement) -> str:
    return f" on {retirement.at:%Y-%m-%d}" if retirement.at else ""


def _in_the_past(candidate: Candidate, retirement: Retirement) -> str:
    """The date as of which it would have been considered, if its relevance then had been enough."""
    if retirement.included_until is None:
        return ""
    moment = f"{retirement.included_until.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if candidate.hit.score < candidate.threshold:
        short = f"though its relevance of {candidate.hit.score:.2f} is below the threshold of {candidate.threshold:.2f}"
        return f"A date before {moment}, {short}. "
    return f"A date before {moment}. "


def shortened(text: str) -> str:
    """The beginning of a memory, for the reason of a verdict."""
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 1].rstrip()}…"
