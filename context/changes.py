"""What a change under consideration would make otherwise, as overrides for its blast radius."""

from context.overrides import CensorDraft, Overrides
from identity.models import ChangeProposal
from memory.models import Censor, Fact
from nousweb.lib.errors import Invalid
from nousweb.lib.text import unstorable_reason


def proposal_overrides(proposal: ChangeProposal) -> Overrides:
    """An identity with the proposed text in its section."""
    return Overrides(identity={proposal.section: proposal.content})


def fact_overrides(fact: Fact, content: str | None) -> Overrides:
    """A memory in which `content` has taken a fact's place, or nothing has."""
    if content is not None and (reason := unstorable_reason(content)):
        raise Invalid(reason, field="content")
    return Overrides(facts={str(fact.pk): content}, subjects={str(fact.pk): fact.subject})


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
