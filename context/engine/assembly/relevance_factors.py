"""The factors by which the relevance of a candidate is multiplied for its place in a prompt."""

from context.engine.analysis.resolved_request import ResolvedRequest
from context.engine.assembly.candidate import Candidate

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
