"""When the memories of a prompt were told, by which their lines are dated (`nousweb.lib.dated_lines`)."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from memory.comparison.fact_snapshot import FactSnapshot
from memory.policy.attributes import (
    VOLATILE,
    Cardinality,
    attribute_named,
    attribute_rule,
    attribute_words,
    volatile_days,
)
from memory.policy.slot_phrases import PHRASES, RUNS
from nousweb.lib.dated_lines import Told

_PHRASES = [line.strip().split(" = ") for *_, text in PHRASES for line in text.strip().splitlines()]
_SIGN = re.compile(
    r"\b(?:"
    + "|".join(
        [
            *(name.replace("_", "[ _-]") for names in VOLATILE.values() for name in names.split()),
            *(
                phrase.strip()
                for phrases, name in _PHRASES
                if volatile_days(name.strip())
                for phrase in phrases.split(",")
            ),
            *RUNS,
            "number of",
        ]
    )
    + r")\b",
    re.IGNORECASE,
)
"""A sentence that states a volatile attribute has one of these."""
LEAST_AGE = timedelta(days=min(VOLATILE))


@dataclass(frozen=True, slots=True)
class LineClock:
    """The moment of a prompt, and the time zone of its agent."""

    now: datetime
    zone: ZoneInfo

    def told(
        self,
        began: datetime,
        recorded: datetime,
        *,
        dated: bool = False,
        always: bool = False,
        changed: datetime | None = None,
    ) -> Told:
        """When a memory was told: of the time that it speaks of, and its record. `dated`: its label says the day;
        `changed`: when its source did."""
        return Told(began, recorded, self.zone, dated, always, changed if changed and changed <= self.now else None)

    def fact_told(
        self,
        content: str,
        attribute: str,
        began: datetime,
        recorded: datetime,
        *,
        always: bool = False,
        changed: datetime | None = None,
        core: bool = False,
    ) -> Told:
        """The same of a fact. The line of an old value of a volatile attribute always says its day; in `core` memory of
        any value of one, since what is there must not change with the clock."""
        age = timedelta.max if core else self.now - began
        volatile = not always and age >= LEAST_AGE and (lasts := _lasts(content, attribute)) and age >= lasts
        return self.told(began, recorded, always=always or bool(volatile), changed=changed)

    @property
    def told_now(self) -> Told:
        """The same of what is told now."""
        return self.told(self.now, self.now)


@lru_cache(maxsize=8_192)
def _lasts(content: str, attribute: str) -> timedelta | None:
    """How long a fact is told without its day; None if it lasts. `attribute`: what its writer named, "" for none."""
    if attribute:
        names = [attribute_named(attribute_words(attribute))]
    else:
        names = [slot.attribute for slot in FactSnapshot(content).slots] if _SIGN.search(content) else []
    days = [days for name in names if (days := volatile_days(name))]
    return timedelta(days=min(days)) if days else None


def repeated_slots(slots: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """The pairs of subject and attribute that come more than once, of attributes that may have one value."""
    counts = Counter(slot for slot in slots if slot[1])
    again = {slot for slot, count in counts.items() if count > 1}
    return {slot for slot in again if attribute_rule(attribute_named(attribute_words(slot[1])))[0] != Cardinality.MANY}
