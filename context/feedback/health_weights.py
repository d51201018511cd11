"""The part of a fact that the health score loses for each list in which it is, 0 to 1."""

from collections.abc import Mapping

HEALTH_WEIGHTS: Mapping[str, float] = {
    "held": 1.0,
    "loops": 1.0,
    "contested": 0.5,
    "duplicates": 0.5,
    "stale": 0.25,
    "unreferenced": 0.25,
    "unshown": 0.1,
}
"""By the key of the list. A convention of this product (docs/lifecycle.md): facts that no prompt should show count
fully, facts that a person must decide half, facts that may still be useful a quarter or less."""
