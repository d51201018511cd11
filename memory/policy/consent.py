"""Which new memories wait for a person's consent, and which are refused: rules of an agent, as data."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from memory.policy import TRUST_ORDER
from nousweb.lib import Invalid, choice_check, text_check, word_check
from nousweb.lib.constrained_types import MAX_KEY_CHARACTERS

CONFIG_KEY = "consent"
MAX_RULES = 50
MAX_WRITER_CHARACTERS = 200


class ConsentAction(StrEnum):
    """`use`: the memory is used at once. `show`: it is, and people are asked whether it is right. `pending`: it is in
    no prompt, search, list or feed of agents until a person allows it. `refuse`: it is not stored."""

    USE = "use"
    SHOW = "show"
    PENDING = "pending"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class ConsentRule:
    """What happens to memories that fit: of this `category` (of facts, else the type of memory), trust class, writer
    (the name of a token) and project. "" fits all."""

    action: ConsentAction
    category: str = ""
    trust: str = ""
    writer: str = ""
    project: str = ""

    def fits(self, **of: str) -> bool:
        """Whether a memory with these values fits."""
        return all(not (wanted := getattr(self, name)) or wanted == value for name, value in of.items())


@dataclass(frozen=True, slots=True)
class ConsentPolicy:
    """The rules of an agent, of which the first that fits decides. What fits none is used at once."""

    rules: tuple[ConsentRule, ...] = ()

    def action_of(self, **of: str) -> ConsentAction:
        """What happens to a new memory with this category, trust class, writer and project."""
        return next((rule.action for rule in self.rules if rule.fits(**of)), ConsentAction.USE)

    def as_json(self) -> list[dict[str, str]]:
        """As the agent's configuration keeps it."""
        return [{name: str(value) for name, value in asdict(rule).items()} for rule in self.rules]

    @classmethod
    def checked(cls, rules: Iterable[Mapping[str, str]]) -> "ConsentPolicy":
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


def _rule_checked(action: str, category: str = "", trust: str = "", writer: str = "", project: str = "") -> ConsentRule:
    return ConsentRule(
        ConsentAction(choice_check("action", action, [*ConsentAction])),
        category and word_check("category", category),
        trust and choice_check("trust", trust, TRUST_ORDER),
        text_check("writer", writer, MAX_WRITER_CHARACTERS),
        text_check("project", project, MAX_KEY_CHARACTERS),
    )


NO_RULES = ConsentPolicy()


@dataclass(frozen=True, slots=True)
class ConsentRequest:
    """What people are asked about a new memory. Those of one writer and `source` (a page, a tool, a session) are one
    group. `limited`: the writer may not ask without end."""

    waits: bool
    writer: str
    source: str
    limited: bool = True

    def as_json(self, agent_id: int) -> dict[str, str]:
        """As the review keeps it."""
        digest = hashlib.sha256(f"{agent_id}\n{self.writer}\n{self.source}\n{self.waits}".encode()).hexdigest()[:32]
        return {"group": digest, "writer": self.writer, "source": self.source}
