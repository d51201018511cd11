"""What all erasures have in common: one transaction, the right, the reason, and what each app erases of its own."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import ParamSpec

from django.db import transaction

from memory.services.erasure.quoting import still_quoted
from memory.services.erasure.scope import Erasure, Receipt, erasers
from nousweb.lib.retrying import transaction_retried
from nousweb.lib.validation import text_check

ERASE = "memory.erase_memory"
MAX_REASON_CHARACTERS = 2_000
P = ParamSpec("P")


def erasing(service: Callable[P, tuple[Receipt, Erasure]]) -> Callable[P, Receipt]:
    """Make an erasure one transaction, tried again after a deadlock with what holds no agent, such as an embedding.

    What goes on quoting it is counted afterwards, when nobody waits any more.
    """

    @wraps(service)
    def run(*args: P.args, **given: P.kwargs) -> Receipt:
        def work() -> tuple[Receipt, Erasure]:
            with transaction.atomic():
                return service(*args, **given)

        receipt, erasure = transaction_retried(work)
        return receipt if erasure.of_agent else replace(receipt, still_quoted=still_quoted(erasure))

    return run


def reason_check(reason: str) -> str:
    """Why something is erased; it has to be said."""
    return text_check("reason", reason, MAX_REASON_CHARACTERS, required=True)


def erasers_run(erasure: Erasure) -> dict[str, int]:
    """What each app erases of its own, by table."""
    rows: dict[str, int] = {}
    for eraser in erasers:
        for name, count in eraser(erasure).items():
            rows[name] = rows.get(name, 0) + count
    return rows
