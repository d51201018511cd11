"""The refusals of a bulk action in one message."""

from collections.abc import Sequence

NAMED = 5


def refusals_summary(refused: Sequence[tuple[str, str]], *, undoing: bool = False) -> str:
    """One message for all refused items: `refused` has each item and its reason. Items with the same reason are
    grouped. `undoing`: their decisions were not undone, else they were not decided."""
    by_reason: dict[str, list[str]] = {}
    for what, why in refused:
        by_reason.setdefault(why, []).append(what)
    parts = []
    for why, whats in sorted(by_reason.items(), key=lambda reason: -len(reason[1])):
        more = f" and {len(whats) - NAMED} more" if len(whats) > NAMED else ""
        parts.append(f"{', '.join(whats[:NAMED])}{more}: {why}")
    number = f"{len(refused)} were" if len(refused) > 1 else "1 was"
    stay = "stay" if len(refused) > 1 else "stays"
    return f"{number} not {'undone' if undoing else f'decided and {stay} pending'}. {' '.join(parts)}"
