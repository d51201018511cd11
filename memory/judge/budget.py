"""The judge's token budget per day (UTC), and the records of its calls."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from identity.models import Agent
from memory.judge.prompts import PROMPT_VERSION
from memory.judge.protocol import JudgeUnavailable
from memory.models import JudgeCall
from nousweb.lib import clock


def today_start() -> datetime:
    """Start of the current day in UTC. Calls for an import with past dates count for today too."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def budget_check() -> None:
    """Raise JudgeUnavailable if the tokens of the day are spent, RuntimeError inside a transaction.

    Running calls are not counted yet, so concurrent calls can exceed the budget.
    """
    with outside_transaction():
        if not settings.JUDGE_DAILY_TOKENS:
            return
        spent = JudgeCall.objects.filter(created_at__gte=today_start()).spent()
    if spent >= settings.JUDGE_DAILY_TOKENS:
        raise JudgeUnavailable("The judge has spent its tokens of today.", retry_at=today_start() + timedelta(days=1))


def outside_transaction() -> transaction.Atomic:
    """A transaction that raises RuntimeError inside another one, so that no model is called within a transaction.

    A call may take a minute, for which the transaction would keep its locks. The transaction of a Django test case does
    not count.
    """
    return transaction.atomic(durable=True)


def call_record(
    *,
    agent: Agent,
    persona: str,
    task: str,
    model: str,
    attempts: int,
    tokens_in: int,
    tokens_out: int,
    duration_ms: int,
    verdict: dict[str, Any] | None = None,
    error: str = "",
) -> JudgeCall:
    """Store the record of one call, with its verdict or its error."""
    return JudgeCall.objects.create(
        agent=agent,
        persona=persona,
        task=task,
        model=model[:100],
        prompt_version=PROMPT_VERSION,
        attempts=attempts,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        duration_ms=duration_ms,
        verdict=verdict or {},
        error=error,
        created_at=max(clock.now(), today_start()),
    )
