"""Rules of an agent, as data: which new memories wait for a person's consent, and which are refused; how often people
are asked about facts; what memory may decide without them, how that is measured, and when it goes back to asking."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import sqrt
from typing import Any
from uuid import UUID

from memory.policy import PROFILE_CATEGORIES, TRUST_ORDER, UNTRUSTED
from nousweb.lib import Invalid, choice_check, text_check, word_check
from nousweb.lib.bounds import MAX_KEY_CHARACTERS

CONSENT_KEY = "consent"
MAX_RULES = 50
MAX_DAYS = 365
MAX_WRITER_CHARACTERS = 200


class ConsentAction(StrEnum):
    """`use`: the memory is used at once. `show`: it is, and people are asked whether it is right. `pending`: it is in
    no prompt, search, list or feed of agents until a person allows it. `refuse`: it is not stored."""

    USE = "use"
    SHOW = "show"
    PENDING = "pending"
    REFUSE = "refuse"


UNTRUSTED_WORDS = "untrusted"
"""As a trust class of a rule: tool output, the web, and what a token says was imported. An import that a person started
counts as consent for it."""
CORE_MEMORY = "core_memory"
"""As a category of a rule: facts of PROFILE_CATEGORIES."""


@dataclass(frozen=True, slots=True)
class NewMemory:
    """What rules look at. `instructs`: whether it is a fact that tells its reader what to do; it is asked for where a
    rule needs it. `confirmed`: a person's import brought it."""

    category: str
    trust: str
    writer: str
    project: str
    confirmed: bool = False
    instructs: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class ConsentRule:
    """What happens to memories that fit: of this `category` (of facts, else the type of memory), trust class, writer
    (the name of a token) and project; "" fits all. `instructs`: only facts that tell their reader what to do. `days`:
    how long one waits for a person before it is given up, 0 for as long as any review."""

    action: ConsentAction
    category: str = ""
    trust: str = ""
    writer: str = ""
    project: str = ""
    instructs: bool = False
    days: int = 0

    def fits(self, memory: NewMemory) -> bool:
        """Whether this is one of these memories."""
        # A person has consented already, by an import, to what such a rule asks about.
        confirmed = memory.confirmed and (self.instructs or self.trust == UNTRUSTED_WORDS)
        if confirmed or any(
            wanted and wanted != value
            for wanted, value in ((self.writer, memory.writer), (self.project, memory.project))
        ):
            return False
        categories = PROFILE_CATEGORIES if self.category == CORE_MEMORY else (self.category or memory.category,)
        classes = UNTRUSTED if self.trust == UNTRUSTED_WORDS else (self.trust or memory.trust,)
        fits = memory.category in categories and memory.trust in classes
        return fits and (not self.instructs or memory.instructs())

    def as_json(self) -> dict[str, Any]:
        """The fields that are set."""
        return {name: value for name, value in asdict(self).items() if value}


@dataclass(frozen=True, slots=True)
class ConsentPolicy:
    """The rules of an agent, of which the first that fits decides. What fits none is used at once."""

    rules: tuple[ConsentRule, ...] = ()

    def rule_of(self, memory: NewMemory) -> ConsentRule:
        """The rule that decides about a new memory."""
        return next((rule for rule in self.rules if rule.fits(memory)), ConsentRule(ConsentAction.USE))

    def as_json(self) -> list[dict[str, Any]]:
        """As the agent's configuration keeps it."""
        return [rule.as_json() for rule in self.rules]

    @classmethod
    def checked(cls, rules: Iterable[Mapping[str, Any]]) -> "ConsentPolicy":
        """A policy as somebody would set it. Raises Invalid, naming the field."""
        given = list(rules)
        if len(given) > MAX_RULES:
            raise Invalid(f"At most {MAX_RULES} rules.", field="consent")
        return cls(tuple(_rule_checked(**rule) for rule in given))

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> "ConsentPolicy":
        """The policy of an agent's configuration; where a part of it is malformed, every new memory is pending."""
        try:
            return cls.checked(config.get(CONSENT_KEY) or ())
        except (Invalid, TypeError, ValueError, AttributeError):
            return cls((ConsentRule(ConsentAction.PENDING),))


def _rule_checked(
    action: str,
    category: str = "",
    trust: str = "",
    writer: str = "",
    project: str = "",
    instructs: bool = False,
    days: int = 0,
) -> ConsentRule:
    if not 0 <= int(days) <= MAX_DAYS:
        raise Invalid(f"A memory waits for at most {MAX_DAYS} days.", field="days")
    return ConsentRule(
        ConsentAction(choice_check("action", action, [*ConsentAction])),
        category and word_check("category", category),
        trust and choice_check("trust", trust, [*TRUST_ORDER, UNTRUSTED_WORDS]),
        text_check("writer", writer, MAX_WRITER_CHARACTERS),
        text_check("project", project, MAX_KEY_CHARACTERS),
        instructs is True,
        int(days),
    )


NO_RULES = ConsentPolicy()
DEFAULT_CONSENT = ConsentPolicy(
    (
        ConsentRule(ConsentAction.PENDING, category="rule"),
        ConsentRule(ConsentAction.PENDING, instructs=True),
        ConsentRule(ConsentAction.PENDING, category=CORE_MEMORY, trust=UNTRUSTED_WORDS),
        ConsentRule(ConsentAction.PENDING, category="procedure", trust=UNTRUSTED_WORDS),
    )
)
"""The rules of a new agent."""


@dataclass(frozen=True, slots=True)
class ConsentRequest:
    """What people are asked about a new memory. Those of one writer and `source` (a page, a tool, a session) are one
    group. `limited`: the writer may not ask without end. `days`: as of a ConsentRule."""

    waits: bool
    writer: str
    source: str
    limited: bool = True
    days: int = 0

    def as_json(self, agent_id: int) -> dict[str, str]:
        """As the review keeps it."""
        digest = hashlib.sha256(f"{agent_id}\n{self.writer}\n{self.source}\n{self.waits}".encode()).hexdigest()[:32]
        return {"group": digest, "writer": self.writer, "source": self.source}


ATTENTION_KEY = "attention"
FACTS = 100
"""The number of learned facts to which `per_hundred_facts` belongs."""
DAY = timedelta(hours=24)
MAX_REVIEWS = {"per_hundred_facts": 100, "per_day": 10_000}
"""The greatest number of each setting."""


@dataclass(frozen=True, slots=True)
class AttentionBudget:
    """At most so many reviews of pairs of facts and of attributes. `unlimited`: everything is asked."""

    per_hundred_facts: int = 3
    per_day: int = 10
    unlimited: bool = False

    def asked_at_most(self, facts: int) -> int:
        """The number of reviews for so many learned facts, each begun hundred counted as a whole one."""
        return self.per_hundred_facts * max(1, -(-facts // FACTS))

    def as_json(self) -> dict[str, Any]:
        """As the agent's configuration keeps it."""
        return asdict(self)

    @classmethod
    def checked(cls, **given: Any) -> "AttentionBudget":
        """A budget as somebody would set it. Raises Invalid, naming the field."""
        for name, most in MAX_REVIEWS.items():
            value = given.get(name, 0)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
                raise Invalid(f"{name} must be a number from 0 to {most:,}.", field=name)
        return cls(**given)

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> "AttentionBudget":
        """The budget of an agent's configuration; absent or malformed parts have their defaults."""
        given = config.get(ATTENTION_KEY)
        known = {one.name for one in fields(cls)}
        try:
            kept = {name: value for name, value in dict(given or {}).items() if name in known}
            return cls.checked(**kept)
        except (Invalid, TypeError, ValueError):
            return cls()


DEFAULT_BUDGET = AttentionBudget()


AUTONOMY_KEY = "autonomy"
BLIND_SHARE = 0.05
"""The share of automatic decisions that reviewers answer without knowing them."""
MIN_BLIND_ANSWERS = 20
"""From this number of answers on, a kind of decision that errs goes back to asking."""


class AutomaticDecision(StrEnum):
    """What was decided about an old fact and a new one: the new one replaced the old one, confirmed it in other words,
    or stays beside it because the attention budget was spent."""

    SUPERSEDED = "superseded"
    CONFIRMED = "confirmed"
    UNDECIDED = "undecided"


AGREES: Mapping[str, str] = {
    AutomaticDecision.SUPERSEDED: "replace",
    AutomaticDecision.CONFIRMED: "same",
    AutomaticDecision.UNDECIDED: "both",
}
"""By decision: the resolution of a review that agrees with it."""


def is_blind_sample(fact_id: UUID) -> bool:
    """Whether the automatic decision about this new fact is shown to reviewers: always the same for the same fact."""
    digest = hashlib.sha256(fact_id.bytes).digest()
    return int.from_bytes(digest[:8], "big") < BLIND_SHARE * 2**64


def wilson_interval(errors: int, answers: int, z: float = 1.96) -> tuple[float, float]:
    """The lower and upper bound of an error rate of which `errors` of `answers` are known; (0, 1) without answers.

    With p = errors / n: (p + z²/2n ± z·√(p(1-p)/n + z²/4n²)) / (1 + z²/n). Source: E. B. Wilson, "Probable Inference,
    the Law of Succession, and Statistical Inference", Journal of the American Statistical Association 22 (1927),
    209-212. `z` is the quantile of the normal distribution, 1.96 for 95 %.
    """
    if answers <= 0:
        return 0.0, 1.0
    rate, square = errors / answers, z * z / answers
    middle = rate + square / 2
    width = sqrt(max(0.0, square * (rate * (1 - rate) + square / 4)))
    # What is rounded may not leave the rate outside.
    return max(0.0, min(rate, (middle - width) / (1 + square))), min(1.0, max(rate, (middle + width) / (1 + square)))


@dataclass(frozen=True, slots=True)
class Autonomy:
    """An agent's limit of the error of automatic decisions, and the decisions that people are `asking` to make
    themselves again. `measured_since`: by decision, when people last allowed it again, in ISO form."""

    max_error: float = 0.05
    asking: tuple[str, ...] = ()
    measured_since: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """As the agent's configuration keeps it."""
        return asdict(self) | {"asking": list(self.asking)}

    def asks(self, decision: AutomaticDecision) -> bool:
        """Whether people decide instead."""
        return decision in self.asking

    def errs(self, errors: int, answers: int) -> bool:
        """Whether a decision with so many disagreeing answers must go back to asking."""
        return answers >= MIN_BLIND_ANSWERS and wilson_interval(errors, answers)[0] > self.max_error

    def set_over(self, before: "Autonomy", now: datetime) -> "Autonomy":
        """These settings in place of `before`: what people allow again is measured from now on."""
        allowed = dict.fromkeys(set(before.asking) - set(self.asking), now.isoformat())
        return replace(self, measured_since={**before.measured_since, **allowed})

    @classmethod
    def checked(cls, max_error: Any = 0.05, asking: Any = (), measured_since: Any = None) -> "Autonomy":
        """Settings as somebody would make them. Raises Invalid, naming the field."""
        if isinstance(max_error, bool) or not isinstance(max_error, int | float) or not 0 <= max_error <= 1:
            raise Invalid("max_error must be a number from 0 to 1.", field="max_error")
        if isinstance(asking, str) or not set(asking) <= set(AutomaticDecision):
            raise Invalid(f"asking names decisions: {', '.join(AutomaticDecision)}.", field="asking")
        since = {str(name): str(moment) for name, moment in dict(measured_since or {}).items()}
        return cls(float(max_error), tuple(str(one) for one in AutomaticDecision if one in asking), since)

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> "Autonomy":
        """The settings of an agent's configuration; malformed ones count as the defaults."""
        given = config.get(AUTONOMY_KEY)
        try:
            return cls.checked(**given) if isinstance(given, dict) else cls()
        except (Invalid, TypeError, ValueError):
            return cls()


DEFAULT_AUTONOMY = Autonomy()
