"""The judge that speaks Anthropic's Messages API through its SDK: one forced tool call for each question."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

import anthropic
from anthropic.types import Message, ToolParam
from django.utils import timezone
from pydantic import ValidationError

from identity.models import Agent
from memory.comparison.snapshot import FactSnapshot
from memory.judge import prompts
from memory.judge.budget import budget_check, call_record
from memory.judge.prompts import SYSTEM, Task
from memory.judge.protocol import (
    EpisodeSummary,
    ExtractedFacts,
    JudgeFailed,
    JudgeReply,
    JudgeResult,
    JudgeUnavailable,
    MergedFact,
    RelationVerdict,
)
from nousweb.lib.tracing import Value, span

LONGEST_PAUSE_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_QUESTION_SECONDS = 100.0
"""No further try begins that could end later: a task of the worker is ended after 120 seconds."""

RESTS_AFTER = 3
REST_SECONDS = 60.0
"""After so many questions in a row without an answer none is asked for a minute: who asks waits in vain, and in the
worker everything else waits too."""

T = TypeVar("T", bound=JudgeReply)


class AnthropicJudge:
    """`timeout` is seconds of one try; `retries` come after the first one, for what may pass by itself.

    The SDK's own retries are off: it sleeps for as long as a server's Retry-After says, be it a day.
    """

    def __init__(
        self,
        model: str,
        *,
        key: str,
        base_url: str,
        timeout: float,
        retries: int,
        first_pause: float = FIRST_PAUSE_SECONDS,
    ) -> None:
        self.model = model
        self._timeout = timeout
        self._retries = retries
        self._first_pause = first_pause
        self._unanswered = 0
        self._rests_until = 0.0
        self._client = anthropic.Anthropic(api_key=key, base_url=base_url, timeout=timeout, max_retries=0)

    @property
    def name(self) -> str:
        return f"anthropic:{self.model}"

    def relation(
        self, *, agent: Agent, persona: str, old: FactSnapshot, new: FactSnapshot
    ) -> JudgeResult[RelationVerdict]:
        return self._ask(agent, persona, prompts.RELATION_TASK, RelationVerdict, prompts.relation_prompt(old, new))

    def summarise(self, *, agent: Agent, persona: str, transcript: str) -> JudgeResult[EpisodeSummary]:
        return self._ask(agent, persona, prompts.SUMMARISE_TASK, EpisodeSummary, prompts.summarise_prompt(transcript))

    def extract_facts(
        self, *, agent: Agent, persona: str, summary: str, transcript: str
    ) -> JudgeResult[ExtractedFacts]:
        prompt = prompts.extract_prompt(summary, transcript)
        return self._ask(agent, persona, prompts.EXTRACT_TASK, ExtractedFacts, prompt)

    def merge(self, *, agent: Agent, persona: str, facts: Sequence[FactSnapshot]) -> JudgeResult[MergedFact]:
        return self._ask(agent, persona, prompts.MERGE_TASK, MergedFact, prompts.merge_prompt(facts))

    def _ask(self, agent: Agent, persona: str, task: Task, answer: type[T], prompt: str) -> JudgeResult[T]:
        """Ask until there is an answer, within the tries, and keep a record of it, whatever came of it."""
        budget_check()
        rest = self._rests_until - time.monotonic()
        if rest > 0:
            raise JudgeUnavailable("The judge did not answer lately, and is given a rest.", retry_at=_in(rest))
        asking = _Asking(max_tokens=task.max_tokens, began=time.monotonic())
        value: T | None = None
        error = ""
        try:
            value = self._tried(asking, task, answer, prompt)
            self._unanswered = 0
        except JudgeFailed as failed:
            error = str(failed)
            self._unanswered = self._unanswered + 1 if isinstance(failed, JudgeUnavailable) else 0
            if self._unanswered >= RESTS_AFTER:
                self._rests_until = time.monotonic() + REST_SECONDS
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
                attempts=asking.attempts,
                tokens_in=asking.tokens_in,
                tokens_out=asking.tokens_out,
                duration_ms=round((time.monotonic() - asking.began) * 1000),
                verdict=_kept(value) if value is not None else None,
                error=error,
            )
        return JudgeResult(
            value=value,
            call_id=call.pk,
            model=self.model,
            prompt_version=call.prompt_version,
            tokens=asking.tokens_in + asking.tokens_out,
        )

    def _tried(self, asking: "_Asking", task: Task, answer: type[T], prompt: str) -> T:
        while True:
            try:
                return _checked(self._sent(asking, task, prompt), asking, task, answer)
            except _Busy as busy:
                pause = self._first_pause * 2 ** (asking.attempts - 1) if busy.pause is None else busy.pause
                if not self._may_try_again(asking, pause) or pause > LONGEST_PAUSE_SECONDS:
                    retry_at = None if busy.pause is None else _in(busy.pause)
                    raise JudgeUnavailable(str(busy), retry_at=retry_at) from busy
                time.sleep(pause)
            except _Unusable as unusable:
                if not self._may_try_again(asking):
                    raise JudgeFailed(str(unusable), retryable=True) from unusable

    def _may_try_again(self, asking: "_Asking", pause: float = 0.0) -> bool:
        ends = time.monotonic() - asking.began + pause + self._timeout
        return asking.attempts <= self._retries and ends <= LONGEST_QUESTION_SECONDS

    def _sent(self, asking: "_Asking", task: Task, prompt: str) -> Message:
        tool: ToolParam = {
            "name": task.tool,
            "description": task.description,
            "input_schema": task.schema(),
            "strict": True,
        }
        asking.attempts += 1
        about: dict[str, Value] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": self.model,
            "gen_ai.request.max_tokens": asking.max_tokens,
            "nous.judge.task": task.name,
            "nous.judge.attempt": asking.attempts,
        }
        with span(f"chat {self.model}", about, kind="client") as within:
            message = self._message(asking, task, tool, prompt)
            within.set_attributes(_telemetry(message))
        return message

    def _message(self, asking: "_Asking", task: Task, tool: ToolParam, prompt: str) -> Message:
        try:
            message = self._client.messages.create(
                model=self.model,
                max_tokens=asking.max_tokens,
                system=SYSTEM,
                messages=[{"role": "user", "content": prompt}],
                tools=[tool],
                tool_choice={"type": "tool", "name": task.tool, "disable_parallel_tool_use": True},
            )
        except anthropic.APITimeoutError as error:
            # It was waited for long enough; the run that asks is tried again later.
            raise JudgeUnavailable("The judge did not answer in time.") from error
        except anthropic.APIConnectionError as error:
            raise _Busy("The judge cannot be reached.") from error
        except anthropic.APIStatusError as error:
            raise _status_failure(error) from error
        except (anthropic.APIError, ValueError) as error:
            raise _Unusable("The judge answered with something else than a message.") from error
        # A server that is none of Anthropic's may answer anything; the SDK does not check it.
        if not isinstance(message, Message) or not isinstance(getattr(message, "content", None), list):
            raise _Unusable("The judge answered with something else than a message.")
        asking.count(message)
        return message


@dataclass(slots=True)
class _Asking:
    """What one question has cost so far, and how long its answer may become."""

    max_tokens: int
    began: float
    attempts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    widened: bool = False

    def count(self, message: Message) -> None:
        tokens_in, tokens_out = _usage(message)
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out


def _usage(message: Message) -> tuple[int, int]:
    """Tokens in, those of caches included, and out."""
    usage = getattr(message, "usage", None)
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    counts = [getattr(usage, name, 0) for name in names]
    *taken, given = [count if isinstance(count, int) and count > 0 else 0 for count in counts]
    return sum(taken), given


def _telemetry(message: Message) -> dict[str, Value]:
    """What a trace says of an answer, of which it has no word."""
    tokens_in, tokens_out = _usage(message)
    model, answer_id = getattr(message, "model", ""), getattr(message, "id", "")
    return {
        "gen_ai.usage.input_tokens": tokens_in,
        "gen_ai.usage.output_tokens": tokens_out,
        "gen_ai.response.model": str(model)[:100],
        "gen_ai.response.id": str(answer_id)[:100],
        "nous.judge.stop_reason": str(message.stop_reason)[:50],
    }


class _Busy(Exception):
    """Worth another try, after `pause` seconds where the server named a time."""

    def __init__(self, said: str, pause: float | None = None) -> None:
        super().__init__(said)
        self.pause = pause


class _Unusable(Exception):
    """An answer, and not what was asked for: a model may do better at the next try."""


def _checked(message: Message, asking: _Asking, task: Task, answer: type[T]) -> T:
    if message.stop_reason == "refusal":
        raise JudgeFailed("The judge refused to answer.", retryable=False)
    if message.stop_reason == "model_context_window_exceeded":
        raise JudgeFailed("The question is too long for the judge.", retryable=False)
    if message.stop_reason == "max_tokens":
        # A cut answer is never used, not even where it can be parsed.
        if asking.widened:
            raise JudgeFailed("The judge's answer was cut off.", retryable=False)
        asking.widened, asking.max_tokens = True, asking.max_tokens * 2
        raise _Unusable("The judge's answer was cut off.")
    calls = [block for block in message.content if getattr(block, "type", "") == "tool_use"]
    if len(calls) != 1 or getattr(calls[0], "name", "") != task.tool:
        raise _Unusable("The judge did not answer in the form that was asked for.")
    try:
        return answer.model_validate(cast(Any, calls[0]).input)
    except ValidationError as error:
        # The message of the error itself quotes the answer, and so the memories.
        fields = ", ".join(sorted({".".join(map(str, found["loc"])) or "input" for found in error.errors()})[:5])
        raise _Unusable(f"The judge's answer is not valid: {fields}.") from None


def _status_failure(error: anthropic.APIStatusError) -> Exception:
    said = f"The judge answered {error.status_code}."
    if error.status_code in (408, 409, 429) or error.status_code >= 500:
        return _Busy(said, _pause(error.response.headers.get("retry-after")))
    if error.status_code in (401, 402, 403, 404):
        # A wrong key, address or model is for the operator to mend; the question stays good.
        return JudgeUnavailable(said)
    return JudgeFailed(said, retryable=False)


def _pause(retry_after: str | None) -> float | None:
    try:
        return min(max(0.0, float(retry_after or "")), 24 * 3600.0)
    except ValueError:
        return None


def _in(seconds: float) -> datetime:
    return timezone.now() + timedelta(seconds=seconds)


def _kept(value: JudgeReply) -> dict[str, Any]:
    """What a record keeps of an answer: the verdict, and of texts only how much there was.

    A text tells of memories, and nothing leads from a memory that is erased to the records of the questions about it. A
    reason is kept with the question or the change that it led to, and is erased with these.
    """
    if isinstance(value, RelationVerdict):
        return value.model_dump(mode="json", exclude={"reason"}) | {"reason": {"characters": len(value.reason)}}
    if isinstance(value, ExtractedFacts):
        return {"facts": len(value.facts), "confidences": [fact.confidence for fact in value.facts]}
    return {name: {"characters": len(text)} for name, text in value.model_dump().items()}
