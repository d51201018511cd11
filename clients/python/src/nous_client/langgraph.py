"""A store of LangGraph whose items are documents of an agent: `graph = builder.compile(store=NousStore())`.

People see every version of an item, and restore or retire it; the agent cannot change items that people decided, and
`put` and `delete` raise Conflict for them. Search is that of the server: `index` of the store names the fields that it
reads by default, all if it is None.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from nous_client import calls
from nous_client.call_sequences import Steps, arun_steps, run_steps
from nous_client.client import AsyncNous, Nous
from nous_client.errors import NotAllowed, NotFound
from nous_client.models import Document, FoundDocument

EVERYBODY = "*"
PAGE = 100
"""Most items that the server gives at once, and most that it ranks for one query."""


class NousStore(BaseStore):
    """`project`, `task` and `user` are the keys to which items belong. With `user_label`, a place in namespaces such as
    1 in ("memories", "ann"), the label there is the user; what has none is everybody's.

    Of `ttl` the store takes `default_ttl`, in minutes, and `refresh_on_read`. Expired items are always omitted; the
    server erases them after its retention. A read moves the end of an item only if more than a tenth of its time to
    live has passed since it was last moved.
    """

    supports_ttl = True

    __slots__ = ("index", "keys", "nous", "ttl_config", "user_label")

    def __init__(
        self,
        nous: Nous | AsyncNous | None = None,
        *,
        project: str = "",
        task: str = "",
        user: str = "",
        user_label: int | None = None,
        index: Sequence[str] | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        self.nous = nous or Nous()
        self.keys = {name: key for name, key in (("project", project), ("task", task), ("user", user)) if key}
        self.user_label = user_label
        self.index = index
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of `ops`, in their order. Writes follow all reads, and for each key only the last one is made."""
        if isinstance(self.nous, AsyncNous):
            raise TypeError("This store has an asynchronous client: use aget, aput, asearch and the like.")
        return run_steps(self.nous, self._steps(checked(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See `batch`. With a blocking client it is done in a thread."""
        if isinstance(self.nous, Nous):
            return await asyncio.to_thread(self.batch, ops)
        return await arun_steps(self.nous, self._steps(checked(ops)))

    def _steps(self, ops: Sequence[Op]) -> Steps[list[Result]]:
        results: list[Result] = [None] * len(ops)
        read: list[Document] = []
        for place, op in in_order(ops):
            match op:
                case GetOp():
                    try:
                        document = yield calls.document(op.namespace, op.key, self._keys(op.namespace))
                    except NotFound:
                        continue
                    results[place] = item_of(document)
                    read += [document] * op.refresh_ttl
                case SearchOp():
                    found = yield from self._search(op)
                    results[place] = [found_item_of(one) for one in found]
                    read += [one.document for one in found] * op.refresh_ttl
                case ListNamespacesOp():
                    results[place] = yield from self._namespaces(op)
                case PutOp(value=None):
                    try:
                        yield calls.delete_document(op.namespace, op.key, self._keys(op.namespace), missing_ok=True)
                    except NotFound:
                        continue
                case PutOp():
                    index = self.index if op.index is None else list(op.index) if op.index else []
                    options = {"index": index, "ttl": seconds_of(op.ttl), **self._keys(op.namespace)}
                    yield calls.put_document(op.namespace, op.key, op.value or {}, options)
        ids = list(dict.fromkeys(document.id for document in read if document.ttl))
        for begin in range(0, len(ids), PAGE):
            # A token that only reads moves no end.
            with suppress(NotAllowed):
                yield calls.refresh_documents(ids[begin : begin + PAGE])
        return results

    def _keys(self, namespace: Sequence[str]) -> dict[str, str]:
        """The keys of the items of a namespace."""
        place = self.user_label
        if place is None:
            return self.keys
        return {**self.keys, "user": namespace[place] if place < len(namespace) else EVERYBODY}

    def _search(self, op: SearchOp) -> Steps[list[FoundDocument]]:
        found: list[FoundDocument] = []
        for limit, offset in pages(op.limit, op.offset, ranked=bool(op.query)):
            options = {"filter": op.filter or {}, "limit": limit, "offset": offset, **self._keys(op.namespace_prefix)}
            page = (yield calls.search_documents(op.namespace_prefix, op.query or "", options)).items
            found.extend(page)
            if len(page) < limit:
                break
        return found

    def _namespaces(self, op: ListNamespacesOp) -> Steps[list[tuple[str, ...]]]:
        conditions: dict[str, list[str]] = {}
        for condition in op.match_conditions or ():
            if condition.match_type in conditions:
                raise ValueError(f"Only one {condition.match_type} can be asked for at a time.")
            conditions[condition.match_type] = list(condition.path)
        keys = self._keys(conditions.get("prefix", ()))
        found: list[tuple[str, ...]] = []
        for limit, offset in pages(op.limit, op.offset):
            options = {**conditions, "max_depth": op.max_depth, "limit": limit, "offset": offset, **keys}
            page = (yield calls.namespaces(options)).items
            found.extend(map(tuple, page))
            if len(page) < limit:
                break
        return found


def checked(ops: Iterable[Op]) -> list[Op]:
    """The operations, whose namespaces are valid. Raises InvalidNamespaceError."""
    ops = list(ops)
    for op in ops:
        validate_op_namespace(op)
    return ops


def seconds_of(minutes: float | None) -> int | None:
    """A time to live of LangGraph for the server, which counts whole seconds, at least one."""
    return None if minutes is None else max(1, round(minutes * 60)) if minutes > 0 else 0


def in_order(ops: Sequence[Op]) -> Iterator[tuple[int, Op]]:
    """Operations with their places: first the reads, then for each key the last write."""
    yield from ((place, op) for place, op in enumerate(ops) if not isinstance(op, PutOp))
    last = {(op.namespace, op.key): (place, op) for place, op in enumerate(ops) if isinstance(op, PutOp)}
    yield from last.values()


def pages(limit: int, offset: int, *, ranked: bool = False) -> Iterator[tuple[int, int]]:
    """Limit and offset of each page; a search by a query is ranked no further than PAGE."""
    end = min(offset + limit, PAGE) if ranked else offset + limit
    for begin in range(offset, end, PAGE):
        yield min(PAGE, end - begin), begin


def item_of(document: Document) -> Item:
    """A document as LangGraph has it: updated when its version was written."""
    return Item(
        value=document.value,
        key=document.key,
        namespace=tuple(document.namespace),
        created_at=document.first_created_at,
        updated_at=document.created_at,
    )


def found_item_of(found: FoundDocument) -> SearchItem:
    """A document that was found, with its relevance from 0 to 1."""
    document = found.document
    return SearchItem(
        tuple(document.namespace),
        document.key,
        document.value,
        document.first_created_at,
        document.created_at,
        found.score,
    )
