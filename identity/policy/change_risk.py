"""The risk of a change of an identity, by its section and its size."""

from collections import Counter

from identity.policy.sections import SECTION_POLICY, Risk

LARGE_CHANGE = 1_000
"""From this many characters of added or removed lines on, the risk of a change rises by one step; from `HUGE_CHANGE`
on, by two."""
HUGE_CHANGE = 4_000


def change_size(before: str, after: str) -> int:
    """The characters of the lines that come or go, in whichever order they stand."""
    old, new = Counter(before.split("\n")), Counter(after.split("\n"))
    return sum(len(line) for line in ((old - new) + (new - old)).elements())


def change_risk(section: str, before: str, after: str) -> Risk:
    """The risk of a change: that of its section, raised where more changes than a person takes in at a glance."""
    size = change_size(before, after)
    steps = (size >= LARGE_CHANGE) + (size >= HUGE_CHANGE)
    ladder = [Risk.LOW, Risk.MEDIUM, Risk.HIGH]
    return ladder[min(ladder.index(SECTION_POLICY[section].risk) + steps, 2)]
