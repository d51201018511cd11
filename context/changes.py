"""What a change under consideration would make otherwise, as overrides for its blast radius."""

from context.overrides import CensorDraft, Overrides
from identity.models import ChangeProposal
from memory.lifecycle.policy import ESCALATES_TO
from memory.models import Censor, Fact, MemoryReview
from memory.services.reviews import RESOLUTIONS
from nousweb.lib.errors import Conflict, Invalid
from nousweb.lib.text import unstorable_reason


def proposal_overrides(proposal: ChangeProposal) -> Overrides:
    """An identity with the proposed text in its section."""
    return Overrides(identity={proposal.section: proposal.content})


def fact_overrides(fact: Fact, content: str | None) -> Overrides:
    """A memory in which `content` has taken a fact's place, or nothing has."""
    if content is not None and (reason := unstorable_reason(content)):
        raise Invalid(reason, field="content")
    return Overrides(facts={str(fact.pk): content}, subjects={str(fact.pk): fact.subject})


def question_overrides(review: MemoryReview, answer: str, content: str = "") -> Overrides:
    """A memory in which a waiting question has been answered; `content` is the text of a merge.

    Answers that change nothing override nothing. Raises Invalid for an answer that the question does not take.
    """
    if answer not in RESOLUTIONS[review.kind]:
        raise Invalid(f"answer is one of {', '.join(RESOLUTIONS[review.kind])}, not {answer[:60]!r}.", field="answer")
    gone: dict[str, Fact | None] = {
        "same": review.new,
        "replace": review.old,
        "old_wrong": review.old,
        "new_wrong": review.new,
    }
    if fact := gone.get(answer):
        return fact_overrides(fact, None)
    if answer == "reverse" and review.censor is not None:
        was = next((low for low, high in ESCALATES_TO.items() if high == review.censor.severity), "")
        return censor_overrides(review.censor, severity=was) if was else Overrides()
    if answer == "merge":
        return _merged(review, content)
    return Overrides()


def _merged(review: MemoryReview, content: str) -> Overrides:
    """The text stands in the place of the first of the facts, and the others are gone."""
    text = content.strip() or review.proposal
    if reason := unstorable_reason(text):
        raise Invalid(reason, field="content")
    if not text:
        raise Invalid("Write the text that takes the place of all of them.", field="content")
    keys = [review.old_id, review.new_id] if review.old_id else review.facts
    sources = Fact.objects.active().filter(pk__in=[key for key in keys if key]).order_by("recorded_at", "id")
    if not sources:
        raise Conflict("None of these facts is still held to be true; there is nothing to merge.")
    first, *others = sources
    return Overrides(
        facts={str(first.pk): text, **{str(fact.pk): None for fact in others}}, subjects={str(first.pk): first.subject}
    )


def censor_overrides(censor: Censor | None, *, pattern: str = "", severity: str = "", reason: str = "") -> Overrides:
    """Censors with one more, one changed, or (with nothing but `censor`) one fewer."""
    for name, value in (("pattern", pattern), ("reason", reason)):
        if problem := unstorable_reason(value):
            raise Invalid(problem, field=name)
    if censor is not None and not pattern and not severity:
        return Overrides(censors_gone=frozenset({str(censor.pk)}))
    severity = severity or (censor.severity if censor else "warn")
    if severity not in Censor.Severity.values:
        raise Invalid(
            f"severity is one of {', '.join(Censor.Severity.values)}, not {severity[:60]!r}.", field="severity"
        )
    if censor is not None:
        draft = CensorDraft(pattern or censor.pattern, severity, reason or censor.reason, str(censor.pk))
    else:
        draft = CensorDraft(pattern, severity, reason)
    return Overrides(censors=(draft,))
