"""What censors do by themselves: the answer checked as the input was, and what they triggered counted once."""

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
    """What the censors that are in force now for the run's persona say of an answer, as it is logged.

    `censors` is "check" or "off", by default as the request for the prompt said. Not to be called in a transaction: it
    may wait for an embedder. Raises Invalid.
    """
    mode = choice_check("censors", censors or run.request.get("censors") or "check", CENSOR_MODES)
    if mode == "off":
        return check_skipped()
    return censors_check(answer, active_censors(VIEWS[run.persona](run.agent)))


def counts(run: ContextRun, check: Mapping[str, Any], by: Principal) -> bool:
    """Whether a check is to be counted: it triggered something now, for an agent or a person who may count.

    A context of the past is a look back and counts nothing. Tokens count whatever their scopes: censors act by
    themselves.
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
