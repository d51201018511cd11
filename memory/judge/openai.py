"""OpenAI's Chat Completions API, which most servers of models speak: a task's answer is JSON in the text."""

import json
import time
from types import SimpleNamespace
from typing import Any, cast

import openai
from openai.types.chat import ChatCompletionMessageParam
from openai.types.shared_params import ResponseFormatJSONSchema

from memory.judge.endpoint import (
    EndpointGarbled,
    EndpointRefused,
    ModelReply,
    ModelRequest,
    Stop,
    bounded_client,
    errors_translated,
    reply_made,
    tokens_counted,
)
from memory.judge.prompts import Task
from nousweb.lib.http_exchange import json_is_deep
from nousweb.lib.token_estimate import estimate_tokens

MAX_CHARACTERS = 200_000
MAX_STARTS = 50
"""Braces at which an object is looked for."""
REASONING, REASONING_ENDS = "<think>", "</think>"


def without_reasoning(text: str) -> str:
    """`text` without the reasoning with which some models begin it."""
    if text.lstrip().startswith(REASONING) and REASONING_ENDS in text:
        return text.partition(REASONING_ENDS)[2]
    return text


def json_in_text(text: str) -> dict[str, Any] | None:
    """The only JSON object in `text`; None if there is none, or more than one: a second may be quoted from a memory."""
    if len(text) > MAX_CHARACTERS or json_is_deep(text.encode("utf-8", "replace")):
        return None
    decoder = json.JSONDecoder(parse_constant=_refused)
    found: dict[str, Any] | None = None
    at = text.find("{")
    for _ in range(MAX_STARTS):
        if at < 0:
            return found
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if found is not None:
                return None
            found = value
        at = text.find("{", end)
    return None


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def streamed_completion(text: str) -> Any:
    """The completion of a server that streams its answer though it was asked not to; None if `text` is no stream."""
    chunks = []
    for line in text.splitlines():
        name, _, data = line.partition(":")
        if name == "data" and data.strip() != "[DONE]" and not json_is_deep(data.encode("utf-8", "replace")):
            chunks.append(json.loads(data, object_hook=lambda values: SimpleNamespace(**values)))
    firsts = [chunk.choices[0] for chunk in chunks if getattr(chunk, "choices", None)]
    if not firsts:
        return None
    said = "".join(str(getattr(first.delta, "content", None) or "") for first in firsts)
    stops = [first.finish_reason for first in firsts if getattr(first, "finish_reason", None)]
    choice = SimpleNamespace(message=SimpleNamespace(content=said), finish_reason=stops[-1] if stops else "")
    usages = [chunk.usage for chunk in chunks if getattr(chunk, "usage", None)]
    return SimpleNamespace(
        id=getattr(chunks[0], "id", ""),
        model=getattr(chunks[0], "model", ""),
        choices=[choice],
        usage=usages[-1] if usages else None,
    )


STOPS = {"content_filter": Stop.REFUSED, "length": Stop.CUT}
FORMAT_REFUSED = (400, 415, 422, 501)
NEWER_LIMIT = "max_completion_tokens"
REASONING_ROOM = 4
"""The newer limit is of models that reason, and includes their reasoning: so many times the tokens of an answer."""
JSON_ONLY = "\n\nAnswer with one JSON object that is valid for this JSON schema, and with nothing else:\n{schema}"


class OpenAIEndpoint:
    """OpenAI, or a server with its Chat Completions API. Without a key, none is sent.

    Two things differ between servers, and are found out at the first refusal: whether `response_format` takes a JSON
    schema, and the name of the limit of tokens.
    """

    kind = "openai"

    def __init__(self, key: str, base_url: str) -> None:
        self._client = openai.OpenAI(
            api_key=key or "none",
            organization="",
            project="",
            base_url=base_url,
            max_retries=0,
            http_client=bounded_client(
                unsent=("openai-organization", "openai-project", *(() if key else ("authorization",)))
            ),
        )
        self._takes_schema = True
        self._limit = "max_tokens"

    def send(self, request: ModelRequest) -> ModelReply:
        until = time.monotonic() + request.timeout
        takes_schema, limit = self._takes_schema, self._limit
        while True:
            try:
                reply = self._sent(request, takes_schema, limit, until - time.monotonic())
            except EndpointRefused as refused:
                if refused.status in FORMAT_REFUSED and limit != NEWER_LIMIT and NEWER_LIMIT in refused.said:
                    limit = NEWER_LIMIT
                elif refused.status in FORMAT_REFUSED and takes_schema and request.task:
                    takes_schema = False
                else:
                    raise
            else:
                self._takes_schema, self._limit = takes_schema, limit
                return reply

    def _sent(self, request: ModelRequest, takes_schema: bool, limit: str, timeout: float) -> ModelReply:
        task = request.task
        system = request.system + (JSON_ONLY.format(schema=json.dumps(task.schema())) if task else "")
        messages = ([("system", system)] if system else []) + list(request.messages)
        with errors_translated(openai):
            completion = self._client.chat.completions.create(
                model=request.model,
                messages=cast(
                    "list[ChatCompletionMessageParam]", [{"role": role, "content": said} for role, said in messages]
                ),
                response_format=_format(task) if task and takes_schema else openai.omit,
                max_tokens=request.max_tokens if limit != NEWER_LIMIT else openai.omit,
                max_completion_tokens=request.max_tokens * REASONING_ROOM if limit == NEWER_LIMIT else openai.omit,
                timeout=timeout,
            )
            # So the SDK returns an answer that is no JSON.
            if isinstance(completion, str):
                completion = streamed_completion(completion)
        # A compatible server may answer anything; the SDK does not check it.
        choices = getattr(completion, "choices", None)
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = getattr(choice, "message", None)
        content = getattr(message, "content", None) or ""
        if message is None or not isinstance(content, str):
            raise EndpointGarbled
        text = without_reasoning(content)
        stop = STOPS.get(str(getattr(choice, "finish_reason", "")), Stop.END)
        usage = getattr(completion, "usage", None)
        return reply_made(
            request,
            completion,
            stop=Stop.REFUSED if getattr(message, "refusal", None) else stop,
            text=text,
            answer=json_in_text(text) if task else None,
            used=(
                tokens_counted(getattr(usage, "prompt_tokens", 0)),
                tokens_counted(getattr(usage, "completion_tokens", 0)) or estimate_tokens(content),
            ),
        )


def _format(task: Task) -> ResponseFormatJSONSchema:
    return {
        "type": "json_schema",
        "json_schema": {
            "name": task.tool,
            "description": task.description,
            "schema": task.schema(),
            "strict": True,
        },
    }
