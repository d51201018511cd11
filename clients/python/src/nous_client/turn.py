"""One turn of a conversation: context, model, answer, events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from types import TracebackType
from typing import Any, Protocol, Self

from nous_client.errors import NotFound
from nous_client.models import Context, Expansion, Hit, Report


class TurnClient(Protocol):
    """The methods of a client that a turn uses."""

    def context(self, input: str, session_id: str, **options: Any) -> Context: ...

    def report_answer(self, context_id: object, response: str) -> Report: ...

    def log_events(self, events: Sequence[Mapping[str, Any]]) -> object: ...

    def recall(self, query: str, **options: Any) -> list[Hit]: ...

    def expand(self, type: str, item_id: object, around: int = 3, *, context: object = None) -> Expansion: ...


class AsyncTurnClient(Protocol):
    """The methods of an asynchronous client that a turn uses."""

    async def context(self, input: str, session_id: str, **options: Any) -> Context: ...

    async def report_answer(self, context_id: object, response: str) -> Report: ...

    async def log_events(self, events: Sequence[Mapping[str, Any]]) -> object: ...

    async def recall(self, query: str, **options: Any) -> list[Hit]: ...

    async def expand(self, type: str, item_id: object, around: int = 3, *, context: object = None) -> Expansion: ...


ERASED: Counter[str] = Counter()
"""How often this process erased each user, through whichever client: a turn may have another token than what erases."""

MARKS = 4
"""The most `cache_control` that a request to Anthropic may have."""


def marks_in(value: Any) -> int:
    """The number of `cache_control` in the arguments of a call."""
    if isinstance(value, Mapping):
        return bool(value.get("cache_control")) + sum(map(marks_in, value.values()))
    return sum(map(marks_in, value)) if isinstance(value, list | tuple) else 0


class _TurnState:
    """The state of a turn. `context` is set on entering, `report` after it has ended with an answer."""

    def __init__(self, session_id: str, input: str, options: Mapping[str, Any]) -> None:
        self.session_id = session_id
        self.input = input
        self.options = dict(options)
        self.answer = ""
        self.report: Report | None = None
        self._context: Context | None = None
        self._erased_before = 0

    def _begin(self, context: Context) -> None:
        self._context, self._erased_before = context, ERASED[self.options.get("user", "")]
        context.raise_if_blocked()

    @property
    def _is_forgotten(self) -> bool:
        """Whether the turn's user was erased in it."""
        return ERASED[self.options.get("user", "")] > self._erased_before

    @property
    def context(self) -> Context:
        """The context of this turn. Raises RuntimeError before the turn is entered."""
        if self._context is None:
            raise RuntimeError("Enter the turn first: `with nous.turn(…) as turn`.")
        return self._context

    @property
    def system_prompt(self) -> str:
        """The prompt to give to the model as its system prompt."""
        return self.context.system_prompt

    def system_blocks(self, marks: int = MARKS) -> list[dict[str, Any]]:
        """The prompt as system blocks of the anthropic SDK, with at most `marks` marks for its cache: where the stable
        part ends, and where the session's part ends."""
        blocks: list[dict[str, Any]] = []
        for stability, group in groupby(self.context.blocks, key=lambda block: block.stability):
            block = {"type": "text", "text": "".join(part.text for part in group)}
            is_marked = stability != "volatile" and len(blocks) < marks
            blocks.append(block | ({"cache_control": {"type": "ephemeral"}} if is_marked else {}))
        return blocks

    def _arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call of the anthropic SDK, with this turn's prompt and input."""
        arguments.setdefault("messages", [{"role": "user", "content": self.input}])
        return {**arguments, "system": self.system_blocks(MARKS - marks_in(arguments))}

    def _events(self) -> list[dict[str, Any]]:
        """The messages of the turn as events, keyed by the context, so that a turn is recorded once."""
        place = {name: self.options[name] for name in ("project", "user") if self.options.get(name)}
        shared = {"loop_id": self.session_id[:100], **place}
        key = str(self.context.id)
        return [
            {"kind": "user_input", "content": self.input, "key": f"{key}:input", **shared},
            {"kind": "actor_output", "content": self.answer, "key": f"{key}:answer", **shared},
        ]

    @property
    def _answered(self) -> bool:
        return bool(self.answer.strip()) and self.context.id is not None


def text_of(message: Any) -> str:
    """The text of a message of the anthropic SDK."""
    return "".join(block.text for block in message.content if block.type == "text")


class Turn(_TurnState):
    """`with nous.turn(session_id, input) as turn`: requests the context; at the end reports `turn.answer` and records
    the messages.

    Entering raises Blocked if a censor forbids the input. Nothing is reported if the block raises, or if `answer` stays
    empty, or if `erase_user` was called for the turn's user meanwhile. If the report fails, as where a memory of the
    prompt was erased, the messages are recorded before its error is raised. `create` calls a model of the anthropic SDK
    and sets `answer` by itself.
    """

    def __init__(self, nous: TurnClient, session_id: str, input: str, options: Mapping[str, Any]) -> None:
        super().__init__(session_id, input, options)
        self.nous = nous

    def __enter__(self) -> Self:
        self._begin(self.nous.context(self.input, self.session_id, **self.options))
        return self

    def create(self, client: Any, **arguments: Any) -> Any:
        """The message of `client.messages.create`, with this turn's prompt and input; `messages` may be given.

        The prompt is marked for Anthropic's cache, with those of the four marks that `arguments` leave."""
        message = client.messages.create(**self._arguments(arguments))
        self.answer = text_of(message)
        return message

    def recall(self, query: str, **options: Any) -> list[Hit]:
        """Memories about `query`, looked up in this turn: they count as shown, and the answer is judged by them too."""
        return self.nous.recall(query, context=self.context.id, **options)

    def expand(self, type: str, item_id: object, around: int = 3) -> Expansion:
        """A whole memory with its surroundings; all of it counts as shown in this turn."""
        return self.nous.expand(type, item_id, around, context=self.context.id)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._answered:
            events = self._events()
            try:
                self.report = self.nous.report_answer(self.context.id, self.answer)
            except NotFound:
                if not self._is_forgotten:
                    raise
                events = []
            finally:
                if events:
                    self.nous.log_events(events)


class AsyncTurn(_TurnState):
    """`async with nous.turn(session_id, input) as turn`. See `Turn`."""

    def __init__(self, nous: AsyncTurnClient, session_id: str, input: str, options: Mapping[str, Any]) -> None:
        super().__init__(session_id, input, options)
        self.nous = nous

    async def __aenter__(self) -> Self:
        self._begin(await self.nous.context(self.input, self.session_id, **self.options))
        return self

    async def create(self, client: Any, **arguments: Any) -> Any:
        """The message of `client.messages.create`, with this turn's prompt and input; `messages` may be given.

        The prompt is marked for Anthropic's cache, with those of the four marks that `arguments` leave."""
        message = await client.messages.create(**self._arguments(arguments))
        self.answer = text_of(message)
        return message

    async def recall(self, query: str, **options: Any) -> list[Hit]:
        """Memories about `query`, looked up in this turn: they count as shown, and the answer is judged by them too."""
        return await self.nous.recall(query, context=self.context.id, **options)

    async def expand(self, type: str, item_id: object, around: int = 3) -> Expansion:
        """A whole memory with its surroundings; all of it counts as shown in this turn."""
        return await self.nous.expand(type, item_id, around, context=self.context.id)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._answered:
            events = self._events()
            try:
                self.report = await self.nous.report_answer(self.context.id, self.answer)
            except NotFound:
                if not self._is_forgotten:
                    raise
                events = []
            finally:
                if events:
                    await self.nous.log_events(events)
