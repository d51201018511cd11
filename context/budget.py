"""How many tokens each section of a prompt may use, declared as data. Source: seed 008, B4."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """Tokens by section, and their total, which is enforced whatever the sections add up to."""

    identity: int = 300
    user_profile: int = 200
    total: int = 3000
