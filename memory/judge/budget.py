"""What a judge may spend in a day of UTC, and the record of what it spent."""

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
    """Midnight in UTC at which the present day began. An import that tells of the past spends today's tokens too."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def budget_check() -> None:
    """Raises JudgeUnavailable when the day's tokens are spent, RuntimeError inside a transaction.

    Calls that are under way are not counted yet, so a day can end above its budget by as many calls as run at once.
    """
    with outside_transaction():
        if not settings.JUDGE_DAILY_TOKENS:
            return
        spent = JudgeCall.objects.filter(created_at__gte=today_start()).spent()
    if spent >= settings.JUDGE_DAILY_TOKENS:
        raise JudgeUnavailable("The judge has spent its tokens of today.", retry_at=today_start() + timedelta(days=1))


def outside_transaction() -> transaction.Atomic:
    """A transaction that refuses, with RuntimeError, to be part of another one: no model is asked inside of one.

    A model may take a minute, during which a transaction would hold its locks. The transaction that Django's
    test cases wrap around a test does not count.
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
    """Keep one question with its answer or its error."""
    return JudgeCall.objects.create(
        agent=agent,
        persona=persona,
        task=task,
        model=model,
        prompt_version=PROMPT_VERSION,
        attempts=attempts,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        duration_ms=duration_ms,
        verdict=verdict or {},
        error=error,
        created_at=max(clock.now(), today_start()),
    )
