"""Chat with the configured model for people who try an agent: one attempt each, with its cost recorded.

It shares the judge's key, address, timeout, daily tokens and record of calls. No transaction is open meanwhile.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.text import Truncator

from identity.models import Agent
from memory.judge.endpoint import (
    EndpointFailed,
    EndpointRefused,
    EndpointTimeout,
    EndpointUnreachable,
    ModelReply,
    ModelRequest,
    Stop,
)
from memory.judge.model_judge import budget_check, call_record, model_endpoint, model_provider
from memory.judge.protocol import JudgeUnavailable
from nousweb.lib.tracing import span

MAX_ANSWER_TOKENS = 1_000
MAX_ANSWER_CHARACTERS = 20_000
"""Longer answers are truncated: the model did not keep to MAX_ANSWER_TOKENS."""
MAX_SAID_CHARACTERS = 300
LONGEST_WAIT_SECONDS = 25
"""Maximum wait for the model: a page times out after 30 seconds, with the assembly of the prompt."""


class ChatFailed(Exception):
    """The model gave no answer; the message is the reason, for people."""


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """An answer of the model and its tokens; `cut`: the answer was truncated. The text is untrusted."""

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    cut: bool

    @property
    def dollars(self) -> float | None:
        """The cost in dollars, if the settings contain the prices of input and output tokens."""
        price_in, price_out = settings.CHAT_PRICE_IN, settings.CHAT_PRICE_OUT
        if not price_in or not price_out:
            return None
        return float(self.tokens_in * price_in + self.tokens_out * price_out) / 1_000_000


def chat_model() -> str:
    """The configured model, "" without a provider."""
    return str(settings.CHAT_MODEL) if model_provider() else ""


def chat_model_place() -> str:
    """Where the configured model answers: the host of its address, "" without a provider."""
    return urlsplit(settings.JUDGE_BASE_URL).netloc.rpartition("@")[2] if model_provider() else ""


@dataclass(frozen=True, slots=True)
class Chat:
    """What the model is asked: a system prompt, and messages as pairs of role and text."""

    system: str
    messages: Sequence[tuple[str, str]]


def chat_ask(*, agent: Agent, persona: str, chats: Sequence[Chat]) -> list[ChatAnswer | ChatFailed]:
    """Call the model once for each of these chats, all at the same time; returns its answers, or why there is none.

    No text is stored; a JudgeCall for each records the tokens.
    """
    try:
        budget_check()
    except JudgeUnavailable:
        return [ChatFailed("Today's token budget is used up (NOUS_JUDGE_DAILY_TOKENS).") for _ in chats]
    if len(chats) == 1:
        tried = [_tried(chats[0])]
    else:
        with ThreadPoolExecutor(len(chats)) as threads:
            tried = list(threads.map(_tried, chats))
    for result, reply, milliseconds in tried:
        call_record(
            agent=agent,
            persona=persona,
            task="chat",
            model=chat_model()[:100],
            attempts=1,
            tokens_in=reply.tokens_in if reply else 0,
            tokens_out=reply.tokens_out if reply else 0,
            duration_ms=milliseconds,
            error=str(result) if isinstance(result, ChatFailed) else "",
        )
    return [result for result, _, _ in tried]


def _tried(chat: Chat) -> tuple[ChatAnswer | ChatFailed, ModelReply | None, int]:
    """One call: the answer or the failure, the reply with its tokens, and the milliseconds. Uses no database."""
    began = time.monotonic()
    reply: ModelReply | None = None
    result: ChatAnswer | ChatFailed
    try:
        reply = _sent(chat_model(), chat.system, chat.messages)
        result = _answer(reply)
    except ChatFailed as failed:
        result = failed
    return result, reply, round((time.monotonic() - began) * 1000)


def _sent(model: str, system: str, messages: Sequence[tuple[str, str]]) -> ModelReply:
    timeout = min(settings.JUDGE_TIMEOUT_SECONDS, LONGEST_WAIT_SECONDS)
    about = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": model_provider(), "gen_ai.request.model": model}
    try:
        with span(f"chat {model}", about, kind="client"):
            return model_endpoint().send(ModelRequest(model, system, messages, MAX_ANSWER_TOKENS, timeout))
    except EndpointTimeout as error:
        raise ChatFailed(f"The model did not answer within {timeout} seconds.") from error
    except EndpointUnreachable as error:
        raise ChatFailed(f"The model at {chat_model_place()} cannot be reached.") from error
    except EndpointRefused as error:
        raise ChatFailed(_status_message(error.status, error.said)) from error
    except EndpointFailed as error:
        raise ChatFailed("The model's response is not a message.") from error


def _status_message(status: int, said: str) -> str:
    if status in (401, 403):
        # The server's message may repeat a part of the key.
        return f"The model rejected the key (status {status}): check NOUS_{model_provider().upper()}_API_KEY."
    if status == 404:
        message = "There is no such model or address (status 404): check NOUS_CHAT_MODEL and NOUS_JUDGE_BASE_URL."
    elif status in (400, 413):
        message = f"The model rejected the conversation (status {status}); it may be too long."
    else:
        message = f"The model is busy or unavailable (status {status}). Send it again in a moment."
    return f"{message} The server says: {Truncator(said).chars(MAX_SAID_CHARACTERS)}"


def _answer(reply: ModelReply) -> ChatAnswer:
    # Half a surrogate pair, which JSON can contain, can neither be stored nor shown.
    text = reply.text.replace("\x00", "").strip().encode("utf-8", "replace").decode()
    if reply.stop is Stop.REFUSED:
        raise ChatFailed("The model refused to answer.")
    if not text:
        raise ChatFailed("The model answered without any text.")
    cut = reply.stop is Stop.CUT or len(text) > MAX_ANSWER_CHARACTERS
    return ChatAnswer(text[:MAX_ANSWER_CHARACTERS], reply.model, reply.tokens_in, reply.tokens_out, cut=cut)
