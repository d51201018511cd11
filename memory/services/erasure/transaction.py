"""Common steps of all erasures: the transaction, the permission, the reason, and the apps' erasers."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import ParamSpec

from django.db import transaction

from memory.services.erasure.quotes import still_quoted
from memory.services.erasure.scope import Erasure, Receipt, erasers
from nousweb.lib.transactions import transaction_retried
from nousweb.lib.validation import text_check

ERASE = "memory.erase_memory"
MAX_REASON_CHARACTERS = 2_000
P = ParamSpec("P")


def erasing(service: Callable[P, tuple[Receipt, Erasure]]) -> Callable[P, Receipt]:
    """Decorator: run an erasure in one transaction, again after a deadlock with work that takes no agent lock, such as
    an embedding.

    Rows that still quote the text are counted after the transaction, when the locks are released.
    """

    @wraps(service)
    def run(*args: P.args, **kwargs: P.kwargs) -> Receipt:
        def work() -> tuple[Receipt, Erasure]:
            with transaction.atomic():
                return service(*args, **kwargs)

        receipt, erasure = transaction_retried(work)
        return receipt if erasure.of_agent else replace(receipt, still_quoted=still_quoted(erasure))

    return run


def reason_check(reason: str) -> str:
    """Validate the reason of an erasure, which is required. Raises Invalid."""
    return text_check("reason", reason, MAX_REASON_CHARACTERS, required=True)


def erasers_run(erasure: Erasure) -> dict[str, int]:
    """Run all erasers; returns numbers of rows by table."""
    rows: dict[str, int] = {}
    for eraser in erasers:
        for name, count in eraser(erasure).items():
            rows[name] = rows.get(name, 0) + count
    return rows
