"""Anthropic's Messages API: a task's answer is a forced tool call."""

from typing import Any, cast

import anthropic
from anthropic.types import MessageParam

from memory.judge.endpoint import (
    EndpointGarbled,
    ModelReply,
    ModelRequest,
    Stop,
    bounded_client,
    errors_translated,
    reply_made,
    tokens_counted,
)
from memory.judge.prompts import Task

STOPS = {"refusal": Stop.REFUSED, "model_context_window_exceeded": Stop.TOO_LONG, "max_tokens": Stop.CUT}
USAGE = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


class AnthropicEndpoint:
    """Anthropic, or a server with its Messages API."""

    kind = "anthropic"

    def __init__(self, key: str, base_url: str) -> None:
        self._client = anthropic.Anthropic(api_key=key, base_url=base_url, max_retries=0, http_client=bounded_client())

    def send(self, request: ModelRequest) -> ModelReply:
        task = request.task
        with errors_translated(anthropic):
            message = self._client.messages.create(
                model=request.model,
                max_tokens=request.max_tokens,
                system=request.system or anthropic.omit,
                messages=cast(
                    "list[MessageParam]", [{"role": role, "content": said} for role, said in request.messages]
                ),
                tools=[
                    {"name": task.tool, "description": task.description, "input_schema": task.schema(), "strict": True}
                ]
                if task
                else anthropic.omit,
                tool_choice=(
                    {"type": "tool", "name": task.tool, "disable_parallel_tool_use": True} if task else anthropic.omit
                ),
                timeout=request.timeout,
            )
        # A compatible server may answer anything; the SDK does not check it.
        blocks = getattr(message, "content", None)
        if not isinstance(blocks, list):
            raise EndpointGarbled
        parts = [getattr(block, "text", "") for block in blocks]
        return reply_made(
            request,
            message,
            stop=STOPS.get(str(message.stop_reason), Stop.END),
            text="".join(part for part in parts if isinstance(part, str)),
            answer=_answer(blocks, task) if task else None,
            used=_usage(message),
        )

    def tokens_count(self, *, model: str, system: str, text: str, timeout: float) -> object:
        """The number of tokens of a system prompt and a user's message, unchecked. Raises EndpointFailed."""
        with errors_translated(anthropic):
            counted = self._client.messages.count_tokens(
                model=model,
                system=system or anthropic.omit,
                messages=[{"role": "user", "content": text}],
                timeout=timeout,
            )
        return getattr(counted, "input_tokens", None)


def _answer(blocks: list[Any], task: Task) -> Any:
    calls = [block for block in blocks if getattr(block, "type", "") == "tool_use"]
    if len(calls) != 1 or getattr(calls[0], "name", "") != task.tool:
        return None
    return getattr(calls[0], "input", None)


def _usage(message: Any) -> tuple[int, int]:
    """Input tokens, cached ones included, and output tokens."""
    usage = getattr(message, "usage", None)
    *tokens_in, tokens_out = (tokens_counted(getattr(usage, name, 0)) for name in USAGE)
    return sum(tokens_in), tokens_out
