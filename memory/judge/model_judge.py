"""The judge of any provider: one request for each task, with checked answers, retries, budget and records. It and the
model's endpoint of the settings are created once per process.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from pydantic import ValidationError

from identity.models import Agent
from memory.comparison.fact_snapshot import FactSnapshot
from memory.judge import prompts
from memory.judge.endpoint import (
    EndpointFailed,
    EndpointRefused,
    EndpointTimeout,
    EndpointUnreachable,
    ModelEndpoint,
    ModelReply,
    ModelRequest,
    Stop,
)
from memory.judge.prompts import PROMPT_VERSION, SYSTEM, Task
from memory.judge.protocol import (
    MAX_CALL_SECONDS,
    MAX_PAIRS,
    EpisodeSummary,
    ExtractedFacts,
    JudgeFailed,
    JudgeReply,
    JudgeResult,
    JudgeUnavailable,
    MergedFact,
    RelationVerdict,
    RelationVerdicts,
)
from memory.models import JudgeCall
from nousweb.lib import clock
from nousweb.lib.http_exchange import BusyServer
from nousweb.lib.tracing import Value, span


def today_start() -> datetime:
    """Start of the current day in UTC. Calls for an import with past dates count for today too."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def budget_check() -> None:
    """Raise JudgeUnavailable if the tokens of the day are spent, RuntimeError inside a transaction.

    Running calls are not counted yet, so concurrent calls can exceed the budget.
    """
    # No model is called within a transaction, which would keep its locks for the minute that a call may take.
    with transaction.atomic(durable=True):
        if not settings.JUDGE_DAILY_TOKENS:
            return
        spent = JudgeCall.objects.filter(created_at__gte=today_start()).spent()
    if spent >= settings.JUDGE_DAILY_TOKENS:
        raise JudgeUnavailable("The judge has spent its tokens of today.", retry_at=today_start() + timedelta(days=1))


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


MAX_RETRY_AFTER_SECONDS = 10.0
BACKOFF_INITIAL_SECONDS = 0.5
MAX_CONSECUTIVE_FAILURES = 3
COOLDOWN_SECONDS = 60.0
"""After MAX_CONSECUTIVE_FAILURES calls without a reply, no call is made for this time, since requests and tasks of
the worker would wait in vain."""

QUICK_CALLS = 5
"""After so many calls about `pairs_at_once` pairs that took less than a third of the timeout, it rises by one."""

T = TypeVar("T", bound=JudgeReply)


class Judge:
    """A model's judge, safe to call from many threads.

    `timeout`: seconds per attempt. `retries`: attempts after the first one, for temporary errors. `pairs_at_once`: how
    many pairs a call should have, at most MAX_PAIRS. Every call raises JudgeFailed (or JudgeUnavailable), or
    RuntimeError inside a transaction. `ends`: a moment of the monotonic clock, by which the last attempt must end.
    """

    def __init__(
        self,
        endpoint: ModelEndpoint,
        model: str,
        *,
        timeout: float,
        retries: int,
        backoff_initial: float = BACKOFF_INITIAL_SECONDS,
    ) -> None:
        self.model = model
        self._endpoint = endpoint
        self.timeout = timeout
        self._retries = retries
        self._backoff_initial = backoff_initial
        self._consecutive_failures = 0
        self._cooldown_until = 0.0
        self.pairs_at_once = MAX_PAIRS
        self._quick_calls = 0

    @property
    def name(self) -> str:
        """`<kind>:<model>`."""
        return f"{self._endpoint.kind}:{self.model}"

    def relation(
        self, *, agent: Agent, persona: str, old: FactSnapshot, new: FactSnapshot, ends: float = inf
    ) -> JudgeResult[RelationVerdict]:
        """Classify the relation of `new`, which was learned later, to `old`."""
        prompt = prompts.relation_prompt(old, new)
        return self._ask_of_pairs(1, agent, persona, prompts.RELATION_TASK, RelationVerdict, prompt, ends)

    def relations(
        self, *, agent: Agent, persona: str, pairs: Sequence[tuple[FactSnapshot, FactSnapshot]], ends: float = inf
    ) -> JudgeResult[RelationVerdicts]:
        """Classify the relations of several pairs, each the older fact first, at most MAX_PAIRS, in one call."""
        task, prompt = prompts.relations_task(len(pairs)), prompts.relations_prompt(pairs)
        return self._ask_of_pairs(len(pairs), agent, persona, task, RelationVerdicts, prompt, ends)

    def _ask_of_pairs(
        self, pairs: int, agent: Agent, persona: str, task: Task, reply_type: type[T], prompt: str, ends: float
    ) -> JudgeResult[T]:
        """Ask, and adapt `pairs_at_once`: a slow model, or one with a small context, answers fewer pairs in a call."""
        began = time.monotonic()
        try:
            result = self._ask(agent, persona, task, reply_type, prompt, ends)
        except JudgeFailed as failed:
            # A judge that is down is another matter.
            if not isinstance(failed, JudgeUnavailable) or isinstance(failed.__cause__, EndpointTimeout):
                self.pairs_at_once = max(1, pairs // 2) if pairs > 1 else self.pairs_at_once
            self._quick_calls = 0
            raise
        if pairs == self.pairs_at_once < MAX_PAIRS and time.monotonic() - began < self.timeout / 3:
            self._quick_calls += 1
            if self._quick_calls == QUICK_CALLS:
                self.pairs_at_once, self._quick_calls = pairs + 1, 0
        return result

    def summarise(self, *, agent: Agent, persona: str, transcript: str) -> JudgeResult[EpisodeSummary]:
        """Write the title and the summary of an episode."""
        return self._ask(agent, persona, prompts.SUMMARISE_TASK, EpisodeSummary, prompts.summarise_prompt(transcript))

    def extract_facts(
        self, *, agent: Agent, persona: str, summary: str, transcript: str
    ) -> JudgeResult[ExtractedFacts]:
        """Extract the durable facts of an episode, at most five, the most important first."""
        prompt = prompts.extract_prompt(summary, transcript)
        return self._ask(agent, persona, prompts.EXTRACT_TASK, ExtractedFacts, prompt)

    def merge(self, *, agent: Agent, persona: str, facts: Sequence[FactSnapshot]) -> JudgeResult[MergedFact]:
        """Write one text that states everything in `facts` and nothing more."""
        return self._ask(agent, persona, prompts.MERGE_TASK, MergedFact, prompts.merge_prompt(facts))

    def _ask(
        self, agent: Agent, persona: str, task: Task, reply_type: type[T], prompt: str, ends: float = inf
    ) -> JudgeResult[T]:
        """Call the model until it gives a valid reply, within the retries, and record the call in any case."""
        budget_check()
        rest = self._cooldown_until - time.monotonic()
        if rest > 0:
            raise JudgeUnavailable("The judge did not answer lately, and is given a rest.", retry_at=_in(rest))
        began = time.monotonic()
        call_state = _Call(max_tokens=task.max_tokens, began=began, ends=min(ends, began + MAX_CALL_SECONDS))
        value: T | None = None
        error = ""
        try:
            value = self._with_retries(call_state, task, reply_type, prompt)
            self._consecutive_failures = 0
        except JudgeFailed as failed:
            error = str(failed)
            self._consecutive_failures = self._consecutive_failures + 1 if isinstance(failed, JudgeUnavailable) else 0
            if self._consecutive_failures >= MAX_CONSECUTIVE_FAILURES:
                self._cooldown_until = time.monotonic() + COOLDOWN_SECONDS
            raise
        except Exception as problem:
            error = f"Unexpected {type(problem).__name__}."
            raise
        finally:
            call = call_record(
                agent=agent,
                persona=persona,
                task=task.name,
                model=self.model,
                attempts=call_state.attempts,
                tokens_in=call_state.tokens_in,
                tokens_out=call_state.tokens_out,
                duration_ms=round((time.monotonic() - call_state.began) * 1000),
                verdict=_recorded_verdict(value) if value is not None else None,
                error=error,
            )
        return JudgeResult(
            value=value,
            call_id=call.pk,
            model=self.model,
            prompt_version=call.prompt_version,
            tokens=call_state.tokens_in + call_state.tokens_out,
        )

    def _with_retries(self, call_state: "_Call", task: Task, reply_type: type[T], prompt: str) -> T:
        while True:
            try:
                return _checked(self._send(call_state, task, prompt), call_state, task, reply_type)
            except BusyServer as busy:
                delay = (
                    self._backoff_initial * 2 ** (call_state.attempts - 1)
                    if busy.retry_after is None
                    else busy.retry_after
                )
                if not self._may_retry(call_state, delay) or delay > MAX_RETRY_AFTER_SECONDS:
                    retry_at = None if busy.retry_after is None else _in(busy.retry_after)
                    raise JudgeUnavailable(str(busy), retry_at=retry_at) from busy
                time.sleep(delay)
            except _InvalidReply as unusable:
                if not self._may_retry(call_state):
                    raise JudgeFailed(str(unusable), retryable=True) from unusable

    def _may_retry(self, call_state: "_Call", delay: float = 0.0) -> bool:
        return call_state.attempts <= self._retries and time.monotonic() + delay + self.timeout <= call_state.ends

    def _send(self, call_state: "_Call", task: Task, prompt: str) -> ModelReply:
        call_state.attempts += 1
        about: dict[str, Value] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._endpoint.kind,
            "gen_ai.request.model": self.model,
            "gen_ai.request.max_tokens": call_state.max_tokens,
            "nous.judge.task": task.name,
            "nous.judge.attempt": call_state.attempts,
        }
        request = ModelRequest(self.model, SYSTEM, [("user", prompt)], call_state.max_tokens, self.timeout, task=task)
        try:
            with span(f"chat {self.model}", about, kind="client") as within:
                reply = self._endpoint.send(request)
                # Without its text.
                within.set_attributes(
                    {
                        "gen_ai.usage.input_tokens": reply.tokens_in,
                        "gen_ai.usage.output_tokens": reply.tokens_out,
                        "gen_ai.response.model": reply.model,
                        "gen_ai.response.id": reply.reply_id,
                        "nous.judge.stop_reason": reply.stop,
                    }
                )
        except EndpointFailed as failed:
            raise _failure(failed) from failed
        call_state.tokens_in += reply.tokens_in
        call_state.tokens_out += reply.tokens_out
        return reply


@dataclass(slots=True)
class _Call:
    """State of one call: its attempts and tokens so far, and the maximum length of its reply."""

    max_tokens: int
    began: float
    ends: float
    attempts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    widened: bool = False


class _InvalidReply(Exception):
    """A reply in the wrong form: another attempt may succeed."""


def _checked(reply: ModelReply, call_state: _Call, task: Task, reply_type: type[T]) -> T:
    if reply.stop is Stop.REFUSED:
        raise JudgeFailed("The judge refused to answer.", retryable=False)
    if reply.stop is Stop.TOO_LONG:
        raise JudgeFailed("The question is too long for the judge.", retryable=False)
    if reply.stop is Stop.CUT:
        # A truncated reply is never used, even if it can be parsed.
        if call_state.widened:
            raise JudgeFailed("The judge's answer was cut off.", retryable=False)
        call_state.widened, call_state.max_tokens = True, call_state.max_tokens * 2
        raise _InvalidReply("The judge's answer was cut off.")
    if reply.answer is None:
        raise _InvalidReply("The judge did not answer in the form that was asked for.")
    try:
        return reply_type.model_validate(reply.answer)
    except ValidationError as error:
        # The error's own message quotes the reply, and so the memories.
        fields = ", ".join(sorted({".".join(map(str, found["loc"])) or "input" for found in error.errors()})[:5])
        raise _InvalidReply(f"The judge's answer is not valid: {fields}.") from None


def _failure(failed: EndpointFailed) -> Exception:
    """A failure of the endpoint as the judge's: final, of the moment, or of this reply."""
    if isinstance(failed, EndpointTimeout):
        # No retry here: the job that called is retried later.
        return JudgeUnavailable("The judge did not answer in time.")
    if isinstance(failed, EndpointUnreachable):
        return BusyServer("The judge cannot be reached.")
    if not isinstance(failed, EndpointRefused):
        return _InvalidReply("The judge answered with something else than a message.")
    said = f"The judge answered {failed.status}."
    if failed.status in (408, 409, 429) or failed.status >= 500:
        return BusyServer(said, failed.retry_after)
    if failed.status in (401, 402, 403, 404):
        # A wrong key, address or model must be corrected by the operator; then the same call can succeed.
        return JudgeUnavailable(said)
    return JudgeFailed(said, retryable=False)


def _in(seconds: float) -> datetime:
    return timezone.now() + timedelta(seconds=seconds)


def _recorded_verdict(value: JudgeReply) -> dict[str, Any]:
    """The part of a reply that is stored with its JudgeCall: the verdict, and only the lengths of texts.

    Texts contain memories, and an erasure cannot find the calls about an erased memory. A reason is stored with the
    review or the change that it led to, and is erased with them.
    """
    if isinstance(value, RelationVerdict):
        return value.model_dump(mode="json", exclude={"reason"}) | {"reason": {"characters": len(value.reason)}}
    if isinstance(value, RelationVerdicts):
        return {"verdicts": [_recorded_verdict(verdict) for verdict in value.verdicts]}
    if isinstance(value, ExtractedFacts):
        return {"facts": len(value.facts), "confidences": [fact.confidence for fact in value.facts]}
    return {name: {"characters": len(text)} for name, text in value.model_dump().items()}


if TYPE_CHECKING:
    from memory.judge.anthropic import AnthropicEndpoint

BRIEF_TIMEOUT_SECONDS = 10.0
PROVIDERS = ("anthropic", "openai")
"""Each is also the name of its module."""

Endpoint = TypeVar("Endpoint", bound=ModelEndpoint)

_judges: dict[tuple[object, ...], Judge] = {}
_endpoints: dict[tuple[object, ...], Any] = {}
_making = threading.Lock()


def configured_judge(*, waiting: bool = False) -> Judge | None:
    """The judge of the settings, or None if there is none and people resolve all reviews.

    With `waiting`, a request waits for the reply: the judge has a short timeout and no retries. If it fails, the worker
    calls it again.
    """
    if settings.JUDGE == "none":
        return None
    endpoint = model_endpoint()
    timeout = min(settings.JUDGE_TIMEOUT_SECONDS, BRIEF_TIMEOUT_SECONDS) if waiting else settings.JUDGE_TIMEOUT_SECONDS
    retries = 0 if waiting else settings.JUDGE_RETRIES
    made_of = (id(endpoint), settings.JUDGE_MODEL, timeout, retries)
    with _making:
        if made_of not in _judges:
            _judges[made_of] = Judge(endpoint, settings.JUDGE_MODEL, timeout=timeout, retries=retries)
        return _judges[made_of]


def model_provider() -> str:
    """The provider of the settings: the judge's; without a judge, that of the key; "" without a key."""
    if settings.JUDGE != "none":
        return str(settings.JUDGE)
    return "anthropic" if settings.ANTHROPIC_API_KEY else "openai" if settings.OPENAI_API_KEY else ""


def model_endpoint() -> ModelEndpoint:
    """The endpoint of `model_provider`, which must not be ""."""
    if model_provider() == "anthropic":
        return anthropic_endpoint()
    from memory.judge.openai import OpenAIEndpoint

    return _made(OpenAIEndpoint, settings.OPENAI_API_KEY)


def anthropic_endpoint() -> "AnthropicEndpoint":
    """Anthropic's endpoint, which also counts tokens."""
    # An SDK takes long to import, and many an installation has no model.
    from memory.judge.anthropic import AnthropicEndpoint

    return _made(AnthropicEndpoint, settings.ANTHROPIC_API_KEY)


def _made(kind: Callable[[str, str], Endpoint], key: str) -> Endpoint:
    # A connection that a process inherited from its parent belongs to both of them, so each makes its own.
    made_of = (os.getpid(), kind, key, settings.JUDGE_BASE_URL)
    with _making:
        if made_of not in _endpoints:
            _endpoints[made_of] = kind(key, settings.JUDGE_BASE_URL)
        return _endpoints[made_of]
