"""The operations of the API as data, for the blocking client and the asynchronous one.

A call is sent again after a lost answer only if that is safe: reads, and writes that the server recognises (events by
their key, facts by their sentence, reports and outcomes by their context, documents by their value or version).
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, RootModel

from nous_client.models import (
    CensorCheck,
    Change,
    Context,
    Document,
    Episode,
    Expansion,
    Fact,
    FoundDocument,
    Hit,
    Identity,
    IdentityChange,
    LearnedFact,
    Outcome,
    Page,
    PutDocument,
    RecentConversation,
    Report,
    Source,
    WorkingMemory,
)
from nous_client.models import Event as RecordedEvent

Answer = TypeVar("Answer", bound=BaseModel)


class Hits(BaseModel):
    items: list[Hit]


class RecentConversations(BaseModel):
    items: list[RecentConversation]


class FoundDocuments(BaseModel):
    items: list[FoundDocument]


class Namespaces(BaseModel):
    items: list[list[str]]


class RecordedEvents(BaseModel):
    events: list[RecordedEvent]


class Nothing(RootModel[Any]):
    """An answer that nobody reads."""


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """One call: its request, the type of its result, and whether it may be sent twice."""

    method: str
    path: str
    answer: type[Answer]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    repeatable: bool = True


def _given(**values: Any) -> dict[str, Any]:
    """The values that are not None; moments as text."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
        if value is not None
    }


def _part(value: object) -> str:
    return quote(str(value), safe="")


def context(input: str, session_id: str, options: Mapping[str, Any]) -> Call[Context]:
    # A lost answer leaves at most one more run in the log.
    return Call("POST", "context", Context, body={"input": input, "session_id": session_id, **_given(**options)})


def report_answer(context_id: object, response: str) -> Call[Report]:
    return Call("POST", f"context/{_part(context_id)}/response", Report, body={"response": response})


def report_outcome(context_id: object, outcome: str, note: str) -> Call[Outcome]:
    return Call("POST", f"context/{_part(context_id)}/outcome", Outcome, body={"outcome": outcome, "note": note})


def recall(query: str, options: Mapping[str, Any]) -> Call[Hits]:
    return Call("GET", "recall", Hits, query={"q": query, **_given(**options)})


def recall_recent(options: Mapping[str, Any]) -> Call[RecentConversations]:
    return Call("GET", "recall/recent", RecentConversations, query=_given(**options))


def expand(type: str, item_id: object, around: int, context: object = None) -> Call[Expansion]:
    query = {"around": around, **_given(context=context)}
    return Call("GET", f"recall/{_part(type)}/{_part(item_id)}", Expansion, query=query)


def learn_fact(content: str, options: Mapping[str, Any]) -> Call[LearnedFact]:
    return Call("POST", "facts", LearnedFact, body={"content": content, **_given(**options)})


def fact(fact_id: object) -> Call[Fact]:
    return Call("GET", f"facts/{_part(fact_id)}", Fact)


def set_expiry(memory: Fact | Document, options: Mapping[str, Any]) -> Call[Any]:
    kind = "facts" if isinstance(memory, Fact) else "documents"
    return Call("POST", f"{kind}/{_part(memory.id)}/expiry", type(memory), body=_given(**options))


def report_source(sha256: str, options: Mapping[str, Any]) -> Call[Source]:
    return Call("POST", "sources", Source, body={"sha256": sha256, **_given(**options)})


def refresh_documents(ids: Sequence[object]) -> Call[Nothing]:
    return Call("POST", "documents/refresh", Nothing, body={"ids": [str(one) for one in ids]})


def facts(options: Mapping[str, Any]) -> Call[Page[Fact]]:
    return Call("GET", "facts", Page[Fact], query=_given(**options))


def put_document(
    namespace: Sequence[str], key: str, value: Mapping[str, Any], options: Mapping[str, Any]
) -> Call[PutDocument]:
    body = {"namespace": list(namespace), "key": key, "value": dict(value), **_given(**options)}
    return Call("PUT", "documents", PutDocument, body=body)


def document(namespace: Sequence[str], key: str, options: Mapping[str, Any]) -> Call[Document]:
    query = {"namespace": list(namespace), "key": key, **_given(**options)}
    return Call("GET", "documents/item", Document, query=query)


def delete_document(
    namespace: Sequence[str], key: str, options: Mapping[str, Any], *, missing_ok: bool = False
) -> Call[Document]:
    """`missing_ok`: to the caller, NotFound means that it is done."""
    query = {"namespace": list(namespace), "key": key, **_given(**options)}
    repeatable = missing_ok or options.get("base_version") is not None
    return Call("DELETE", "documents/item", Document, query=query, repeatable=repeatable)


def documents(options: Mapping[str, Any]) -> Call[Page[Document]]:
    return Call("GET", "documents", Page[Document], query=_given(**options))


def document_versions(document_id: object, options: Mapping[str, Any]) -> Call[Page[Document]]:
    return Call("GET", f"documents/{_part(document_id)}/versions", Page[Document], query=_given(**options))


def search_documents(namespace: Sequence[str], query: str, options: Mapping[str, Any]) -> Call[FoundDocuments]:
    body = {"namespace": list(namespace), "query": query, **_given(**options)}
    return Call("POST", "documents/search", FoundDocuments, body=body)


def namespaces(options: Mapping[str, Any]) -> Call[Namespaces]:
    return Call("GET", "documents/namespaces", Namespaces, query=_given(**options))


def log_events(events: Sequence[Mapping[str, Any]]) -> Call[RecordedEvents]:
    keyed = [{"key": uuid.uuid4().hex, **_given(**event)} for event in events]
    return Call("POST", "events", RecordedEvents, body={"events": keyed})


def open_episode(options: Mapping[str, Any]) -> Call[Episode]:
    return Call("POST", "episodes", Episode, body=_given(**options), repeatable=False)


def close_episode(episode_id: object, options: Mapping[str, Any]) -> Call[Episode]:
    path = f"episodes/{_part(episode_id)}/close"
    return Call("POST", path, Episode, body=_given(**options), repeatable=False)


def identity() -> Call[Identity]:
    return Call("GET", "identity", Identity)


def propose_identity_change(section: str, content: str, reason: str) -> Call[IdentityChange]:
    body = {"content": content, "reason": reason, "mode": "propose"}
    return Call("PUT", f"identity/{_part(section)}", IdentityChange, body=body)


def check_censors(text: str, options: Mapping[str, Any]) -> Call[CensorCheck]:
    return Call("POST", "censors/check", CensorCheck, body={"text": text, **_given(**options)}, repeatable=False)


def working_memory(session_id: str, options: Mapping[str, Any]) -> Call[WorkingMemory]:
    return Call("GET", f"working/{_part(session_id)}", WorkingMemory, query=_given(**options))


def keep_in_mind(session_id: str, text: str, options: Mapping[str, Any]) -> Call[Nothing]:
    body = {"text": text, **_given(**options)}
    return Call("POST", f"working/{_part(session_id)}/items", Nothing, body=body, repeatable=False)


def erase_user(user: str, reason: str) -> Call[Nothing]:
    return Call("POST", "users/erase", Nothing, body={"user": user, "reason": reason})


def changes(options: Mapping[str, Any]) -> Call[Page[Change]]:
    return Call("GET", "changes", Page[Change], query=_given(**options))
