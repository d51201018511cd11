"""mem0's `Memory` over documents of an agent, for migration: the same methods, arguments and results.

Instead of `from mem0 import Memory` write `from nous_client.mem0 import Memory`. A memory is a document of its id in
the namespace `mem0`; an update is a version of it, and a deleted memory is retired, so that people see and undo both.

A `user_id` is the user to whom the memory belongs: it comes up for that user only, also in the agent's prompts. Calls
without one find what belongs to no user by its meaning, and what belongs to any by its owners or its id.

Nothing here calls a language model. With `infer` (the default) the texts that `extract` returns for the messages are
added, except those that are known of the same user, agent and run word for word; without `extract` these are the user's
messages, and with `infer=False` all messages.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from nous_client import calls
from nous_client.call_sequences import Steps, arun_steps, run_steps
from nous_client.client import AsyncNous, Nous
from nous_client.errors import Conflict, NotFound
from nous_client.models import Document

NAMESPACE = ("mem0",)
OWNERS = ("user_id", "agent_id", "run_id")
IDENTITY = frozenset({*OWNERS, "actor_id"})
PROMOTED = (*OWNERS, "actor_id", "role", "attributed_to", "expiration_date")
CORE = frozenset({"data", "hash", "created_at", "updated_at", "id", *PROMOTED})
PAGE = 100
COMPARED = ("eq", "ne", "gt", "gte", "lt", "lte")
"""The server compares these; the other operators are looked at here, among the PAGE best."""
_UNSET: Any = object()

Messages = str | dict[str, Any] | list[dict[str, Any]]
Extract = Callable[[Sequence[dict[str, Any]]], Sequence[str]]


class _Steps:
    """The methods as steps for both clients."""

    def __init__(self, extract: Extract | None, project: str, task: str) -> None:
        self.extract = extract
        self.keys = {name: key for name, key in (("project", project), ("task", task)) if key}

    def add(
        self,
        messages: Messages,
        owners: Mapping[str, Any],
        metadata: Mapping[str, Any] | None,
        timestamp: Any,
        expiration_date: Any,
        infer: bool,
        memory_type: str | None,
    ) -> Steps[dict[str, Any]]:
        if timestamp is not None:
            raise ValueError("timestamp is not supported: a memory is of when it is added.")
        if memory_type is not None:
            raise ValueError("memory_type is not supported: write a procedure by Nous's own API.")
        owned = owners_of(owners)
        if not owned:
            raise ValueError("At least one of 'user_id', 'agent_id' or 'run_id' must be provided.")
        given = metadata_of(metadata)
        if expiration_date is not None:
            given["expiration_date"] = day_of(expiration_date)
        results: list[dict[str, Any]] = []
        for text, said in self._texts(messages_of(messages), infer):
            digest = hash_of(text)
            keys = self._keys(owned)
            if infer:
                known = {"filter": {"hash": digest, **owned}, "limit": 1, **keys}
                if (yield calls.search_documents(NAMESPACE, "", known)).items:
                    continue
            key = str(uuid4())
            payload = {**given, **owned, **said, "data": text, "hash": digest}
            yield calls.put_document(NAMESPACE, key, payload, {"index": ["data"], "base_version": 0, **keys})
            results.append({"id": key, "memory": text, "event": "ADD"})
            if not infer:
                results[-1] |= {"actor_id": said.get("actor_id"), "role": said["role"]}
        return {"results": results}

    def _texts(self, messages: Sequence[dict[str, Any]], infer: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        """The texts of the messages to store, with their roles."""
        if infer and self.extract is not None:
            yield from ((text, {}) for text in self.extract(messages))
            return
        for message in messages:
            role, content = message.get("role"), message.get("content")
            if role is None or not isinstance(content, str) or role == "system" or (infer and role != "user"):
                continue
            name = message.get("name")
            yield content, {"role": role, **({"actor_id": name} if name else {})}

    def _keys(self, owned: Mapping[str, Any]) -> dict[str, str]:
        """The keys of memories of these owners."""
        user = owned.get("user_id")
        return {**self.keys, **({"user": user} if isinstance(user, str) and user != "*" else {})}

    def get(self, memory_id: str) -> Steps[dict[str, Any] | None]:
        document = yield from self._latest(str(memory_id))
        return memory_of(document) if document is not None and document.active else None

    def get_all(
        self, filters: Mapping[str, Any] | None, top_k: int, show_expired: bool, more: Mapping[str, Any]
    ) -> Steps[dict[str, Any]]:
        wanted = filters_check(filters, top_k, more, "get_all")
        documents = yield from self._listed(wanted, top_k, show_expired)
        found = [memory_of(document) for document in documents]
        for memory in found:
            del memory["score"]
        return {"results": found[:top_k]}

    def _listed(self, wanted: Mapping[str, Any], most: int | None, show_expired: bool = True) -> Steps[list[Document]]:
        """The latest documents that pass the filters, of whichever user."""
        found: list[Document] = []
        cursor: str | None = ""
        while cursor is not None and (most is None or len(found) < most):
            page = yield calls.documents(
                {"namespace": list(NAMESPACE), "limit": PAGE, **self._keys(wanted), "cursor": cursor}
            )
            own = (one for one in page.items if one.namespace == list(NAMESPACE) and self._holds(one))
            found += [one for one in own if shows(one.value, wanted, show_expired)]
            cursor = page.next
        return found

    def _holds(self, document: Document) -> bool:
        """Whether a document is of the project and task of this store."""
        return all(getattr(document, name) == self.keys.get(name, "") for name in ("project", "task"))

    def search(
        self,
        query: str,
        top_k: int,
        filters: Mapping[str, Any] | None,
        threshold: float,
        reference_date: Any,
        show_expired: bool,
        more: Mapping[str, Any],
    ) -> Steps[dict[str, Any]]:
        if reference_date is not None:
            raise ValueError("reference_date is not supported.")
        wanted = filters_check(filters, top_k, more, "search")
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise ValueError(f"Invalid threshold: {threshold}. Must be between 0 and 1 (inclusive).")
        if not isinstance(query, str) or not query.strip():
            raise ValueError("Invalid query: must be a non-empty string.")
        options = {"filter": compared(wanted), "limit": PAGE, "min_score": threshold, **self._keys(wanted)}
        page = (yield calls.search_documents(NAMESPACE, query.strip(), options)).items
        found = [memory_of(one.document, one.score) for one in page if shows(one.document.value, wanted, show_expired)]
        return {"results": found[:top_k]}

    def update(
        self,
        memory_id: str,
        text: str | None,
        metadata: Mapping[str, Any] | None,
        expiration_date: Any,
        data: str | None,
    ) -> Steps[dict[str, Any]]:
        text = data if text is None else text
        if text is None and metadata is None and expiration_date is _UNSET:
            raise ValueError("At least one of text, metadata, or expiration_date must be provided.")
        changed = metadata_of(metadata)
        if expiration_date is not _UNSET:
            changed["expiration_date"] = None if expiration_date is None else day_of(expiration_date)
        if text is not None:
            changed |= {"data": text, "hash": hash_of(text)}
        while True:
            document = yield from self._existing(memory_id)
            options = {"index": ["data"], "base_version": document.version, **self._own(document)}
            try:
                yield calls.put_document(NAMESPACE, document.key, document.value | changed, options)
            except Conflict as conflict:
                if "version" not in conflict.problem:
                    raise
                continue
            return {"message": "Memory updated successfully!"}

    def delete(self, memory_id: str) -> Steps[dict[str, Any]]:
        document = yield from self._existing(memory_id)
        with suppress(NotFound):
            yield calls.delete_document(NAMESPACE, str(memory_id), self._own(document), missing_ok=True)
        return {"message": "Memory deleted successfully!"}

    def delete_all(self, owners: Mapping[str, Any]) -> Steps[dict[str, Any]]:
        owned = owners_of(owners)
        if not owned:
            raise ValueError(
                "At least one filter is required to delete all memories. If you want to delete all memories, use the "
                "`reset()` method."
            )
        yield from self._delete_all(owned)
        return {"message": "Memories deleted successfully!"}

    def reset(self) -> Steps[None]:
        yield from self._delete_all({})

    def _delete_all(self, wanted: Mapping[str, Any]) -> Steps[None]:
        for document in (yield from self._listed(wanted, None)):
            with suppress(NotFound):
                yield calls.delete_document(NAMESPACE, document.key, self._own(document), missing_ok=True)

    def _own(self, document: Document) -> dict[str, str]:
        """The keys of a document."""
        return {**self.keys, "user": document.user or "*"}

    def history(self, memory_id: str) -> Steps[list[dict[str, Any]]]:
        versions: list[Document] = []
        latest = yield from self._latest(str(memory_id))
        cursor: str | None = ""
        while latest is not None and cursor is not None:
            page = yield calls.document_versions(latest.id, {"cursor": cursor})
            versions += page.items
            cursor = page.next
        return list(changes_of(versions[::-1]))

    def _latest(self, key: str) -> Steps[Document | None]:
        """The latest version of a memory, which may have been deleted."""
        filters = {"namespace": list(NAMESPACE), "key_prefix": key, "state": "all", "limit": PAGE, **self.keys}
        cursor: str | None = ""
        while cursor is not None:
            page = yield calls.documents({**filters, "cursor": cursor})
            for document in page.items:
                if (document.namespace, document.key) == (list(NAMESPACE), key) and self._holds(document):
                    found: Document = document
                    return found
            cursor = page.next
        return None

    def _existing(self, memory_id: str) -> Steps[Document]:
        document = yield from self._latest(str(memory_id))
        if document is None or not document.active:
            raise ValueError(f"Memory with id {memory_id} not found")
        return document


class Memory:
    """mem0's `Memory`. `nous` is the agent's, `extract` what makes memories of messages."""

    def __init__(
        self, nous: Nous | None = None, *, extract: Extract | None = None, project: str = "", task: str = ""
    ) -> None:
        self.nous = nous or Nous()
        self._steps = _Steps(extract, project, task)

    def add(
        self,
        messages: Messages,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        timestamp: Any | None = None,
        expiration_date: Any | None = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
    ) -> dict[str, Any]:
        """Add memories of a user, an agent or a run: `{"results": [{"id", "memory", "event": "ADD"}]}`."""
        owners = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
        return run_steps(
            self.nous,
            self._steps.add(messages, owners, metadata, timestamp, expiration_date, infer, memory_type),
        )

    def get(self, memory_id: str) -> dict[str, Any] | None:
        """One memory, None where there is none."""
        return run_steps(self.nous, self._steps.get(memory_id))

    def get_all(
        self, *, filters: dict[str, Any] | None = None, top_k: int = 20, show_expired: bool = False, **kwargs: Any
    ) -> dict[str, Any]:
        """The latest memories that `filters` let through, which name a user, an agent or a run."""
        return run_steps(self.nous, self._steps.get_all(filters, top_k, show_expired, kwargs))

    def search(
        self,
        query: str,
        *,
        top_k: int = 20,
        filters: dict[str, Any] | None = None,
        threshold: float = 0.1,
        rerank: bool = False,
        explain: bool = False,
        reference_date: Any | None = None,
        show_expired: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Memories about `query`, best first, each with its `score` from 0 to 1; the server always ranks again."""
        return run_steps(
            self.nous,
            self._steps.search(query, top_k, filters, threshold, reference_date, show_expired, kwargs),
        )

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: dict[str, Any] | None = None,
        expiration_date: Any = _UNSET,
        data: str | None = None,
    ) -> dict[str, Any]:
        """Change a memory's text or metadata, not whose it is. Raises ValueError where there is none."""
        return run_steps(self.nous, self._steps.update(memory_id, text, metadata, expiration_date, data))

    def delete(self, memory_id: str) -> dict[str, Any]:
        """Retire a memory. Raises ValueError where there is none."""
        return run_steps(self.nous, self._steps.delete(memory_id))

    def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, Any]:
        """Retire all memories of a user, an agent or a run."""
        owners = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
        return run_steps(self.nous, self._steps.delete_all(owners))

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """The changes of a memory, from its beginning: ADD, UPDATE and DELETE."""
        return run_steps(self.nous, self._steps.history(memory_id))

    def reset(self) -> None:
        """Retire all memories that were added by this class."""
        run_steps(self.nous, self._steps.reset())

    def close(self) -> None:
        """Close the connections."""
        self.nous.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncMemory:
    """mem0's `AsyncMemory`. See `Memory`."""

    def __init__(
        self, nous: AsyncNous | None = None, *, extract: Extract | None = None, project: str = "", task: str = ""
    ) -> None:
        self.nous = nous or AsyncNous()
        self._steps = _Steps(extract, project, task)

    async def add(
        self,
        messages: Messages,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        timestamp: Any | None = None,
        expiration_date: Any | None = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
        llm: Any | None = None,
    ) -> dict[str, Any]:
        """Add memories of a user, an agent or a run."""
        owners = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
        return await arun_steps(
            self.nous,
            self._steps.add(messages, owners, metadata, timestamp, expiration_date, infer, memory_type),
        )

    async def get(self, memory_id: str) -> dict[str, Any] | None:
        """One memory, None where there is none."""
        return await arun_steps(self.nous, self._steps.get(memory_id))

    async def get_all(
        self, *, filters: dict[str, Any] | None = None, top_k: int = 20, show_expired: bool = False, **kwargs: Any
    ) -> dict[str, Any]:
        """The latest memories that `filters` let through, which name a user, an agent or a run."""
        return await arun_steps(self.nous, self._steps.get_all(filters, top_k, show_expired, kwargs))

    async def search(
        self,
        query: str,
        *,
        top_k: int = 20,
        filters: dict[str, Any] | None = None,
        threshold: float = 0.1,
        rerank: bool = False,
        explain: bool = False,
        reference_date: Any | None = None,
        show_expired: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Memories about `query`, best first."""
        return await arun_steps(
            self.nous,
            self._steps.search(query, top_k, filters, threshold, reference_date, show_expired, kwargs),
        )

    async def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: dict[str, Any] | None = None,
        expiration_date: Any = _UNSET,
        data: str | None = None,
    ) -> dict[str, Any]:
        """Change a memory's text or metadata. Raises ValueError where there is none."""
        return await arun_steps(self.nous, self._steps.update(memory_id, text, metadata, expiration_date, data))

    async def delete(self, memory_id: str) -> dict[str, Any]:
        """Retire a memory. Raises ValueError where there is none."""
        return await arun_steps(self.nous, self._steps.delete(memory_id))

    async def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, Any]:
        """Retire all memories of a user, an agent or a run."""
        owners = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
        return await arun_steps(self.nous, self._steps.delete_all(owners))

    async def history(self, memory_id: str) -> list[dict[str, Any]]:
        """The changes of a memory, from its beginning."""
        return await arun_steps(self.nous, self._steps.history(memory_id))

    async def reset(self) -> None:
        """Retire all memories that were added by this class."""
        await arun_steps(self.nous, self._steps.reset())


def messages_of(messages: Messages) -> list[dict[str, Any]]:
    """Messages as a list. Raises ValueError for anything else."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    if isinstance(messages, dict):
        return [messages]
    if not isinstance(messages, list):
        raise ValueError("messages must be str, dict, or list[dict]")
    return messages


def owners_of(owners: Mapping[str, Any]) -> dict[str, str]:
    """The owners of a memory, as text. Raises ValueError for an id that is empty or has white space in it."""
    found: dict[str, str] = {}
    for name in OWNERS:
        if owners.get(name) is None:
            continue
        value = str(owners[name]).strip()
        if not value or len(value.split()) > 1:
            raise ValueError(f"Invalid {name}: cannot be empty or contain whitespace. Provide a valid identifier.")
        found[name] = value
    return found


def filters_check(
    filters: Mapping[str, Any] | None, top_k: int, more: Mapping[str, Any], method: str
) -> dict[str, Any]:
    """The filters with ids as text. Raises ValueError as mem0 does."""
    if top := set(more) & set(OWNERS):
        raise ValueError(
            f"Top-level entity parameters {top} are not supported in {method}(). "
            "Use filters={'user_id': '...'} instead."
        )
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 0:
        raise ValueError(f"Invalid top_k: {top_k}. Must be a non-negative integer.")
    owned = owners_of(filters or {})
    if not owned:
        raise ValueError(
            "filters must contain at least one of: user_id, agent_id, run_id. Example: filters={'user_id': 'u1'}"
        )
    return {**(filters or {}), **owned}


def compared(filters: Mapping[str, Any]) -> dict[str, Any]:
    """The filters that the server supports, in its terms."""
    found: dict[str, Any] = {}
    for name, wanted in filters.items():
        if name in ("AND", "OR", "NOT") or wanted == "*":
            continue
        if not isinstance(wanted, dict):
            found[name] = wanted
        elif set(wanted) <= set(COMPARED):
            found[name] = {f"${operator}": operand for operator, operand in wanted.items()}
    return found


def shows(payload: Mapping[str, Any], filters: Mapping[str, Any], show_expired: bool) -> bool:
    """Whether a memory passes the filters, and has not expired."""
    expires = payload.get("expiration_date")
    if expires and not show_expired and date.fromisoformat(str(expires)) < datetime.now(UTC).date():
        return False
    return all(passes(payload, name, wanted) for name, wanted in filters.items())


def passes(payload: Mapping[str, Any], name: str, wanted: Any) -> bool:
    """Whether a memory passes one filter. Raises ValueError for an operator that mem0 does not know either."""
    if name in ("AND", "OR", "NOT"):
        each = (all(passes(payload, *one) for one in part.items()) for part in wanted)
        return all(each) if name == "AND" else any(each) if name == "OR" else not any(each)
    held = payload.get(name)
    if wanted == "*":
        return name in payload
    if not isinstance(wanted, dict):
        return bool(held == wanted)
    for operator, operand in wanted.items():
        match operator:
            case "in":
                passed = held in operand
            case "nin":
                passed = held not in operand
            case "contains":
                passed = isinstance(held, str | list) and operand in held
            case "icontains":
                passed = isinstance(held, str) and str(operand).lower() in held.lower()
            case "eq" | "ne":
                passed = (held == operand) == (operator == "eq")
            case "gt" | "gte" | "lt" | "lte":
                passed = _orders(held, operand, operator)
            case _:
                raise ValueError(f"Unsupported metadata filter operator: {operator}")
        if not passed:
            return False
    return True


def _orders(held: Any, operand: Any, operator: str) -> bool:
    if isinstance(held, str) != isinstance(operand, str) or not isinstance(held, str | int | float):
        return False
    order = (held > operand) - (held < operand)
    return order in {"gt": (1,), "gte": (0, 1), "lt": (-1,), "lte": (-1, 0)}[operator]


def metadata_of(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """The metadata to store, without the owners. Raises ValueError for an invalid day of expiry."""
    kept = {name: value for name, value in (metadata or {}).items() if name not in IDENTITY}
    if kept.get("expiration_date") is not None:
        kept["expiration_date"] = day_of(kept["expiration_date"])
    return kept


def day_of(value: Any) -> str:
    """A day as YYYY-MM-DD. Raises ValueError."""
    if isinstance(value, datetime):
        return value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    try:
        return date.fromisoformat(value).isoformat()
    except (TypeError, ValueError) as error:
        raise ValueError("expiration_date must be a valid date in YYYY-MM-DD format.") from error


def hash_of(text: str) -> str:
    """As mem0 has it."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def memory_of(document: Document, score: float | None = None) -> dict[str, Any]:
    """A memory as mem0 gives it."""
    payload = document.value
    more = {name: value for name, value in payload.items() if name not in CORE}
    return {
        "id": document.key,
        "memory": payload.get("data", ""),
        "hash": payload.get("hash"),
        "metadata": more or None,
        "score": score,
        "created_at": document.first_created_at.isoformat(),
        "updated_at": document.created_at.isoformat(),
        **{name: payload[name] for name in PROMOTED if name in payload},
    }


def changes_of(versions: Sequence[Document]) -> Iterator[dict[str, Any]]:
    """The changes of a memory, from its versions, the first one first."""
    before: Document | None = None
    for version in versions:
        if before is not None and before.retired_at is not None and version.first_created_at == version.created_at:
            yield _change(before, "DELETE")
            before = None
        yield _change(version, "UPDATE" if before else "ADD", before)
        before = version
    if before is not None and not before.active:
        yield _change(before, "DELETE")


def _change(version: Document, event: str, before: Document | None = None) -> dict[str, Any]:
    gone = event == "DELETE"
    old = version if gone else before
    return {
        "id": f"{version.id}:{event.lower()}",
        "memory_id": version.key,
        "old_memory": old.value.get("data") if old else None,
        "new_memory": None if gone else version.value.get("data"),
        "event": event,
        "created_at": version.first_created_at.isoformat(),
        "updated_at": ((version.retired_at if gone else None) or version.created_at).isoformat(),
        "is_deleted": gone,
        "actor_id": version.value.get("actor_id"),
        "role": version.value.get("role"),
    }
