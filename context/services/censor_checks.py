"""Automatic censor checks: the answer is checked like the input, and triggers are counted once."""

from collections.abc import Mapping
from typing import Any

from context.engine.analysis.request import CENSOR_MODES
from context.engine.retrieval.censors import active_censors, censors_check, check_skipped
from context.models import ContextRun
from identity.principal import Principal
from memory.persona import VIEWS
from memory.services.censors import censors_count
from nousweb.lib.validation import choice_check

TRIGGER = "memory.trigger_censor"
INPUT, ANSWER = "input", "answer"


def answer_check(run: ContextRun, answer: str, censors: str | None = None) -> dict[str, Any]:
    """Check an answer against the active censors of the run's persona; returns the check as it is logged.

    `censors` is "check" or "off"; the default is the setting of the request for the prompt. Do not call it in a
    transaction: it may wait for an embedder. Raises Invalid.
    """
    mode = choice_check("censors", censors or run.request.get("censors") or "check", CENSOR_MODES)
    if mode == "off":
        return check_skipped()
    return censors_check(answer, active_censors(VIEWS[run.persona](run.agent)))


def counts(run: ContextRun, check: Mapping[str, Any], by: Principal) -> bool:
    """Whether a check is counted: it has triggers, is not of the past, and `by` is an agent or a person who may count.

    Tokens count whatever their scopes: censors act by themselves.
    """
    return bool(check["triggers"]) and run.as_of is None and (by.token is not None or by.may(TRIGGER))


def triggers_count(run: ContextRun, side: str, check: Mapping[str, Any], by: Principal) -> None:
    """Count each censor that matched, once for this side ("input" or "answer") of the run.

    Called in the transaction that keeps the check with the run, which is kept once.
    """
    if not counts(run, check, by):
        return
    censors_count(
        agent=run.agent,
        persona=run.persona,
        matched=[trigger["id"] for trigger in check["triggers"] if trigger["matched"]],
        timed_out=[trigger["id"] for trigger in check["triggers"] if not trigger["matched"]],
        verdict=check["verdict"],
        by=by,
        about={"run": str(run.pk), "side": side},
    )
