"""Which new memories wait for a person's consent, and which are refused: rules of an agent, as data."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from memory.policy import PROFILE_CATEGORIES, TRUST_ORDER, UNTRUSTED
from nousweb.lib import Invalid, choice_check, text_check, word_check
from nousweb.lib.constrained_types import MAX_KEY_CHARACTERS

CONFIG_KEY = "consent"
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
            return cls.checked(config.get(CONFIG_KEY) or ())
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
