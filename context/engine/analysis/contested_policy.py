"""The policy of how prompts show contested facts, declared per agent and per category of fact."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from nousweb.lib import Invalid, choice_check, word_check

CONFIG_KEY = "contested"
MAX_CATEGORIES = 50


class ContestedOrder(StrEnum):
    """`newest_first`: the newer above the older. `newest_only`: the older is left out. `both`: both by
    relevance.

    In each case both are marked as contested, and people's statements come before agents' statements.
    """

    NEWEST_FIRST = "newest_first"
    NEWEST_ONLY = "newest_only"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class ContestedPolicy:
    """The order for all facts, and others by category."""

    order: ContestedOrder = ContestedOrder.NEWEST_FIRST
    categories: Mapping[str, ContestedOrder] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, category: str) -> ContestedOrder:
        """The order for facts of a category."""
        return self.categories.get(category, self.order)

    def as_json(self) -> dict[str, Any]:
        """As the agent's configuration and the log keep it."""
        return {"order": str(self.order), "categories": {name: str(one) for name, one in self.categories.items()}}

    @classmethod
    def checked(cls, order: str, categories: Mapping[str, str] | None = None) -> "ContestedPolicy":
        """A policy as somebody would set it. Raises Invalid, naming the field."""
        given = dict(categories or {})
        if len(given) > MAX_CATEGORIES:
            raise Invalid(f"At most {MAX_CATEGORIES} categories have an order of their own.", field="categories")
        return cls(
            _order_check("order", order),
            MappingProxyType({word_check("category", name): _order_check("categories", given[name]) for name in given}),
        )

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> "ContestedPolicy":
        """The policy of an agent's configuration; absent or malformed parts have their defaults."""
        given = config.get(CONFIG_KEY)
        given = given if isinstance(given, dict) else {"order": given}
        categories = given.get("categories")
        by_name: Mapping[Any, ContestedOrder] = {str(one): one for one in ContestedOrder}
        found = {
            name: by_name[order]
            for name, order in (categories if isinstance(categories, dict) else {}).items()
            if isinstance(order, str) and order in by_name
        }
        order = given.get("order")
        return cls(
            by_name.get(order if isinstance(order, str) else "", ContestedOrder.NEWEST_FIRST),
            MappingProxyType(found),
        )


def _order_check(name: str, value: str) -> ContestedOrder:
    return ContestedOrder(choice_check(name, value, [*ContestedOrder]))
