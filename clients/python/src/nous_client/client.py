"""The clients: `Nous` waits for each answer, `AsyncNous` is awaited; both have the same methods."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2
from pydantic import BaseModel

from nous_client import calls
from nous_client.calls import Call
from nous_client.models import (
    CensorCheck,
    Change,
    Context,
    Document,
    Episode,
    Event,
    Expansion,
    Fact,
    FoundDocument,
    Hit,
    Identity,
    IdentityChange,
    LearnedFact,
    Outcome,
    PutDocument,
    RecentConversation,
    Report,
    Source,
    WorkingMemory,
)
from nous_client.retries import Attempts, Settings, answer_of, request_of
from nous_client.turn import ERASED, AsyncTurn, Turn

Answer = TypeVar("Answer", bound=BaseModel)


class Nous:
    """The memory of one agent.

    `url` and `token` are NOUS_URL and NOUS_TOKEN by default; `timeout` is in seconds, `retries` is how often a call is
    sent again if the server is unreachable or busy; `transport` is one of httpx2, such as one with a proxy.

    Every method raises Refused if the server refuses a call, and Unreachable if there is no answer. Further keyword
    arguments are fields of the operation, as in docs/api.md.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 3,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self.settings = Settings.of(url, token, timeout, retries)
        self._http = httpx2.Client(transport=transport, **self.settings.client_arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, call: Call[Answer]) -> Answer:
        """The answer to `call`, after as many tries as it takes and may."""
        attempts = Attempts(call, self.settings.retries)
        while True:
            try:
                response = self._http.request(**request_of(call))
                wait = attempts.after_answer(response)
            except httpx2.TransportError as error:
                wait = attempts.after_failure(error)
                response = None
            if wait is None and response is not None:
                return answer_of(call, response)
            time.sleep(wait or 0.0)

    def turn(self, session_id: str, input: str, **options: Any) -> Turn:
        """A turn of a conversation, as a context manager: see `Turn`."""
        return Turn(self, session_id, input, options)

    def context(self, input: str, session_id: str, **options: Any) -> Context:
        """The prompt to think with about `input`."""
        return self.send(calls.context(input, session_id, options))

    def report_answer(self, context_id: object, response: str) -> Report:
        """Report the answer; the server finds the memories that it used, and checks it against the censors."""
        return self.send(calls.report_answer(context_id, response))

    def report_outcome(self, context_id: object, outcome: str, note: str = "") -> Outcome:
        """Say whether the task ended in `success` or `failure`."""
        return self.send(calls.report_outcome(context_id, outcome, note))

    def recall(self, query: str, **options: Any) -> list[Hit]:
        """Memories about `query`, best first. With `context=`, a context's id, they count as shown in that turn."""
        return self.send(calls.recall(query, options)).items

    def recall_recent(self, **options: Any) -> list[RecentConversation]:
        """Titles and times of the last conversations, the latest first."""
        return self.send(calls.recall_recent(options)).items

    def expand(self, type: str, item_id: object, around: int = 3, *, context: object = None) -> Expansion:
        """A whole memory with its surroundings: `around` events before and after an event.

        With `context`, the id of a context, all of it counts as shown in that turn.
        """
        return self.send(calls.expand(type, item_id, around, context))

    def learn_fact(self, content: str, **options: Any) -> LearnedFact:
        """Learn a sentence, or confirm it if it is known; a contradiction waits for people."""
        return self.send(calls.learn_fact(content, options))

    def fact(self, fact_id: object) -> Fact:
        """One fact."""
        return self.send(calls.fact(fact_id))

    def set_expiry(self, memory: Fact | Document, **options: Any) -> Any:
        """Let a memory expire: `expires_at`, or `ttl` in seconds; with neither it does not any more."""
        return self.send(calls.set_expiry(memory, options))

    def report_source(self, sha256: str, **options: Any) -> Source:
        """Report the digest of a `url` or `path` that was read again; prompts mark what rests on another one."""
        return self.send(calls.report_source(sha256, options))

    def facts(self, **filters: Any) -> Iterator[Fact]:
        """All facts that the filters let through, page after page as they are asked for."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.send(calls.facts({**filters, "cursor": cursor}))
            yield from page.items
            cursor = page.next

    def put_document(self, namespace: Sequence[str], key: str, value: Mapping[str, Any], **options: Any) -> PutDocument:
        """Store `value` under a key, as a new version; an equal value changes nothing.

        With `base_version`, only if that is the present version, 0 for a key without a value; else Conflict.
        """
        return self.send(calls.put_document(namespace, key, value, options))

    def document(self, namespace: Sequence[str], key: str, **options: Any) -> Document:
        """The document under a key. Raises NotFound."""
        return self.send(calls.document(namespace, key, options))

    def delete_document(self, namespace: Sequence[str], key: str, **options: Any) -> Document:
        """Retire the document under a key; people see its versions, and may restore one. Raises NotFound."""
        return self.send(calls.delete_document(namespace, key, options))

    def documents(self, **filters: Any) -> Iterator[Document]:
        """All documents that the filters let through, page after page as they are asked for."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.send(calls.documents({**filters, "cursor": cursor}))
            yield from page.items
            cursor = page.next

    def document_versions(self, document_id: object) -> Iterator[Document]:
        """Every version of the key of a document, the latest first."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.send(calls.document_versions(document_id, {"cursor": cursor}))
            yield from page.items
            cursor = page.next

    def search_documents(self, namespace: Sequence[str] = (), query: str = "", **options: Any) -> list[FoundDocument]:
        """Documents below a namespace: the latest, or for a `query` the most relevant."""
        return self.send(calls.search_documents(namespace, query, options)).items

    def namespaces(self, **options: Any) -> list[list[str]]:
        """The namespaces in which there are documents, by `prefix`, `suffix` and `max_depth`."""
        return self.send(calls.namespaces(options)).items

    def log_events(self, events: Sequence[Mapping[str, Any]]) -> list[Event]:
        """Record events; each gets a key of its own unless it has one, so that none is stored twice."""
        return self.send(calls.log_events(events)).events

    def open_episode(self, title: str = "", **options: Any) -> Episode:
        """Begin an episode."""
        return self.send(calls.open_episode({"title": title, **options}))

    def close_episode(self, episode_id: object, **options: Any) -> Episode:
        """End an episode, with `summary`, `outcome` and `lessons`."""
        return self.send(calls.close_episode(episode_id, options))

    def identity(self) -> Identity:
        """The agent's identity."""
        return self.send(calls.identity())

    def propose_identity_change(self, section: str, content: str, reason: str = "") -> IdentityChange:
        """Propose new text for a section; a person decides."""
        return self.send(calls.propose_identity_change(section, content, reason))

    def check_censors(self, text: str, **options: Any) -> CensorCheck:
        """Check `text` against the censors."""
        return self.send(calls.check_censors(text, options))

    def working_memory(self, session_id: str, **options: Any) -> WorkingMemory:
        """The working memory of a session."""
        return self.send(calls.working_memory(session_id, options))

    def keep_in_mind(self, session_id: str, text: str, **options: Any) -> None:
        """Add to the working memory of a session."""
        self.send(calls.keep_in_mind(session_id, text, options))

    def erase_user(self, user: str, reason: str) -> None:
        """Erase everything of a user for good. The token needs the scope users:manage."""
        self.send(calls.erase_user(user, reason))
        ERASED[user] += 1

    def changes(self, after: str = "", *, wait: int = 0, **filters: Any) -> Iterator[tuple[Change, str]]:
        """Changes in order, each with the cursor to go on from after it was dealt with; ends when there is none.

        `wait` is how many seconds, up to 20, the server may wait for one.
        """
        while True:
            page = self.send(calls.changes({**filters, "after": after, "wait": wait}))
            if not page.items:
                return
            after = page.next or after
            for change in page.items:
                yield change, after


class AsyncNous:
    """The memory of one agent, for asyncio. See `Nous`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 3,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.settings = Settings.of(url, token, timeout, retries)
        self._http = httpx2.AsyncClient(transport=transport, **self.settings.client_arguments)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, call: Call[Answer]) -> Answer:
        """The answer to `call`, after as many tries as it takes and may."""
        attempts = Attempts(call, self.settings.retries)
        while True:
            try:
                response = await self._http.request(**request_of(call))
                wait = attempts.after_answer(response)
            except httpx2.TransportError as error:
                wait = attempts.after_failure(error)
                response = None
            if wait is None and response is not None:
                return answer_of(call, response)
            await asyncio.sleep(wait or 0.0)

    def turn(self, session_id: str, input: str, **options: Any) -> AsyncTurn:
        """A turn of a conversation, as an asynchronous context manager: see `Turn`."""
        return AsyncTurn(self, session_id, input, options)

    async def context(self, input: str, session_id: str, **options: Any) -> Context:
        """The prompt to think with about `input`."""
        return await self.send(calls.context(input, session_id, options))

    async def report_answer(self, context_id: object, response: str) -> Report:
        """Report the answer; the server finds the memories that it used, and checks it against the censors."""
        return await self.send(calls.report_answer(context_id, response))

    async def report_outcome(self, context_id: object, outcome: str, note: str = "") -> Outcome:
        """Say whether the task ended in `success` or `failure`."""
        return await self.send(calls.report_outcome(context_id, outcome, note))

    async def recall(self, query: str, **options: Any) -> list[Hit]:
        """Memories about `query`, best first. With `context=`, a context's id, they count as shown in that turn."""
        return (await self.send(calls.recall(query, options))).items

    async def recall_recent(self, **options: Any) -> list[RecentConversation]:
        """Titles and times of the last conversations, the latest first."""
        return (await self.send(calls.recall_recent(options))).items

    async def expand(self, type: str, item_id: object, around: int = 3, *, context: object = None) -> Expansion:
        """A whole memory with its surroundings: `around` events before and after an event.

        With `context`, the id of a context, all of it counts as shown in that turn.
        """
        return await self.send(calls.expand(type, item_id, around, context))

    async def learn_fact(self, content: str, **options: Any) -> LearnedFact:
        """Learn a sentence, or confirm it if it is known; a contradiction waits for people."""
        return await self.send(calls.learn_fact(content, options))

    async def fact(self, fact_id: object) -> Fact:
        """One fact."""
        return await self.send(calls.fact(fact_id))

    async def set_expiry(self, memory: Fact | Document, **options: Any) -> Any:
        """See `Nous.set_expiry`."""
        return await self.send(calls.set_expiry(memory, options))

    async def report_source(self, sha256: str, **options: Any) -> Source:
        """See `Nous.report_source`."""
        return await self.send(calls.report_source(sha256, options))

    async def facts(self, **filters: Any) -> AsyncIterator[Fact]:
        """All facts that the filters let through, page after page as they are asked for."""
        cursor: str | None = ""
        while cursor is not None:
            page = await self.send(calls.facts({**filters, "cursor": cursor}))
            for fact in page.items:
                yield fact
            cursor = page.next

    async def put_document(
        self, namespace: Sequence[str], key: str, value: Mapping[str, Any], **options: Any
    ) -> PutDocument:
        """Store `value` under a key, as a new version; an equal value changes nothing.

        With `base_version`, only if that is the present version, 0 for a key without a value; else Conflict.
        """
        return await self.send(calls.put_document(namespace, key, value, options))

    async def document(self, namespace: Sequence[str], key: str, **options: Any) -> Document:
        """The document under a key. Raises NotFound."""
        return await self.send(calls.document(namespace, key, options))

    async def delete_document(self, namespace: Sequence[str], key: str, **options: Any) -> Document:
        """Retire the document under a key; people see its versions, and may restore one. Raises NotFound."""
        return await self.send(calls.delete_document(namespace, key, options))

    async def documents(self, **filters: Any) -> AsyncIterator[Document]:
        """All documents that the filters let through, page after page as they are asked for."""
        cursor: str | None = ""
        while cursor is not None:
            page = await self.send(calls.documents({**filters, "cursor": cursor}))
            for document in page.items:
                yield document
            cursor = page.next

    async def document_versions(self, document_id: object) -> AsyncIterator[Document]:
        """Every version of the key of a document, the latest first."""
        cursor: str | None = ""
        while cursor is not None:
            page = await self.send(calls.document_versions(document_id, {"cursor": cursor}))
            for document in page.items:
                yield document
            cursor = page.next

    async def search_documents(
        self, namespace: Sequence[str] = (), query: str = "", **options: Any
    ) -> list[FoundDocument]:
        """Documents below a namespace: the latest, or for a `query` the most relevant."""
        return (await self.send(calls.search_documents(namespace, query, options))).items

    async def namespaces(self, **options: Any) -> list[list[str]]:
        """The namespaces in which there are documents, by `prefix`, `suffix` and `max_depth`."""
        return (await self.send(calls.namespaces(options))).items

    async def log_events(self, events: Sequence[Mapping[str, Any]]) -> list[Event]:
        """Record events; each gets a key of its own unless it has one, so that none is stored twice."""
        return (await self.send(calls.log_events(events))).events

    async def open_episode(self, title: str = "", **options: Any) -> Episode:
        """Begin an episode."""
        return await self.send(calls.open_episode({"title": title, **options}))

    async def close_episode(self, episode_id: object, **options: Any) -> Episode:
        """End an episode, with `summary`, `outcome` and `lessons`."""
        return await self.send(calls.close_episode(episode_id, options))

    async def identity(self) -> Identity:
        """The agent's identity."""
        return await self.send(calls.identity())

    async def propose_identity_change(self, section: str, content: str, reason: str = "") -> IdentityChange:
        """Propose new text for a section; a person decides."""
        return await self.send(calls.propose_identity_change(section, content, reason))

    async def check_censors(self, text: str, **options: Any) -> CensorCheck:
        """Check `text` against the censors."""
        return await self.send(calls.check_censors(text, options))

    async def working_memory(self, session_id: str, **options: Any) -> WorkingMemory:
        """The working memory of a session."""
        return await self.send(calls.working_memory(session_id, options))

    async def keep_in_mind(self, session_id: str, text: str, **options: Any) -> None:
        """Add to the working memory of a session."""
        await self.send(calls.keep_in_mind(session_id, text, options))

    async def erase_user(self, user: str, reason: str) -> None:
        """Erase everything of a user for good. The token needs the scope users:manage."""
        await self.send(calls.erase_user(user, reason))
        ERASED[user] += 1

    async def changes(self, after: str = "", *, wait: int = 0, **filters: Any) -> AsyncIterator[tuple[Change, str]]:
        """Changes in order, each with the cursor to go on from after it was dealt with; ends when there is none.

        `wait` is how many seconds, up to 20, the server may wait for one.
        """
        while True:
            page = await self.send(calls.changes({**filters, "after": after, "wait": wait}))
            if not page.items:
                return
            after = page.next or after
            for change in page.items:
                yield change, after
