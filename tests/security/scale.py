"""How large the attacks are: small beside the other tests, in full with ATTACK_SCALE=full."""

import os


def scaled(small: int, full: int) -> int:
    """`small`, or `full` where the environment asks for the full size."""
    return full if os.environ.get("ATTACK_SCALE") == "full" else small
