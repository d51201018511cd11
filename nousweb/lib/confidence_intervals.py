"""Confidence intervals of shares that were counted on few cases."""

from math import sqrt

Z_95 = 1.959964
"""Standard normal quantile of a two-sided interval of 95 %."""


def wilson(successes: int, n: int, z: float = Z_95) -> tuple[float, float]:
    """Lower and upper bound, 0 to 1, of the share behind `successes` of `n`; (0, 1) without any case.

    Wilson's score interval, which stays honest for small `n` and for shares near 0 and 1.
    """
    if n <= 0:
        return 0.0, 1.0
    share = successes / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)
