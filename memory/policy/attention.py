"""The attention budget of an agent: how often people are asked about its facts, as data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from typing import Any

from nousweb.lib.errors import Invalid

CONFIG_KEY = "attention"
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
        given = config.get(CONFIG_KEY)
        known = {one.name for one in fields(cls)}
        try:
            kept = {name: value for name, value in dict(given or {}).items() if name in known}
            return cls.checked(**kept)
        except (Invalid, TypeError, ValueError):
            return cls()


DEFAULT_BUDGET = AttentionBudget()
