"""One review for each attribute of which nobody knows how many values it has at a time: all its facts join it."""

import hashlib
from collections.abc import Sequence

from identity.principal import Principal
from memory.comparison.attribute_names import same_attribute, stated_name
from memory.comparison.compare_facts import Kind as ComparisonKind
from memory.comparison.learning_decision import FactMatch
from memory.models import Attribute, Fact, MemoryReview
from memory.policy.attributes import Cardinality, plural
from memory.policy.size_limits import MAX_ATTRIBUTE_CHARACTERS
from memory.services.reviews.attention import undecided_ask
from memory.services.reviews.open_review import PairReviewDraft, pair_reviews_open, review_open
from memory.services.reviews.records import review_reopen

MAX_FACTS = 500
"""Facts that one review names."""


def attribute_rules(agent_id: int, persona: str) -> dict[str, Cardinality]:
    """How many values attributes have at a time, as people decided, by name."""
    decided = Attribute.objects.filter(agent=agent_id, persona=persona)
    return {name: Cardinality(cardinality) for name, cardinality in decided.values_list("name", "cardinality")}


def asks_about_attribute(match: FactMatch) -> bool:
    """Whether the pair differs in an attribute of which nobody knows how many values it has."""
    return match.comparison.kind is ComparisonKind.DIFFERS and not match.review_only


def attribute_questions_open(drafts: Sequence[PairReviewDraft], *, by: Principal) -> list[MemoryReview]:
    """The pending reviews of the attributes of these pairs of stored facts, which the pairs join; new ones where there
    are none. Nothing for an attribute that people have decided about. Call it under the learning lock.

    Until then each pair has a row of its own, which nobody is asked about: by that prompts mark its facts as contested,
    and a judge sees it. An attribute over the attention budget is undecided, and so are its pairs, until a later pair
    is within it.
    """
    found = {}
    for draft in drafts:
        if (review := _question(draft, by)) is not None:
            pair_reviews_open([draft], by=by, question=review)
            if "undecided" not in review.details:
                found[review.pk] = review
    return list(found.values())


def _known_name(fact: Fact, name: str) -> str:
    """The spelling under which the attribute was asked about before, else that of the older `fact`, else `name`."""
    asked = MemoryReview.objects.filter(agent=fact.agent_id, persona=fact.persona, kind=MemoryReview.Kind.ATTRIBUTE)
    names = asked.order_by("created_at").values_list("details__attribute", flat=True)[:MAX_FACTS]
    known = (*names, stated_name(fact.attribute))
    return next((spelled for spelled in known if same_attribute(spelled, name)), name)


def _question(draft: PairReviewDraft, by: Principal) -> MemoryReview | None:
    new = draft.new
    name = _known_name(draft.old, stated_name(draft.comparison.attribute)[:MAX_ATTRIBUTE_CHARACTERS])
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    about = f"attribute:{new.agent_id}:{new.persona}:{digest}"
    pair = [draft.old.pk, new.pk]
    subject = draft.new.subject or draft.old.subject
    verified = draft.old.endorsed or draft.new.endorsed
    opened = review_open(
        agent=new.agent,
        persona=new.persona,
        kind=MemoryReview.Kind.ATTRIBUTE,
        about=about,
        by=by,
        always=verified,
        subject=subject,
        facts=pair,
        details={"attribute": name},
        reasons=[
            {
                "code": "cardinality",
                "words": f"Can {subject or 'one thing'} have several {plural(name.replace('_', ' '))} at once?",
                "old": draft.comparison.old_value,
                "new": draft.comparison.new_value,
            }
        ],
    )
    if opened is not None:
        return opened
    locked = MemoryReview.objects.select_for_update(of=("self",)).select_related("agent")
    review = locked.filter(agent=new.agent_id, about=about).first()
    if review is None or (review.status == review.Status.RESOLVED and review.resolution != review.Resolution.MOOT):
        return None
    review.facts = list(dict.fromkeys([*review.facts, *pair]))[-MAX_FACTS:]
    review.save(update_fields=["facts"])
    if review.resolution == review.Resolution.MOOT:
        review_reopen(review, by)
    if review.status == review.Status.UNDECIDED:
        undecided_ask(review, by, always=verified)
    return review
