"""Selectors of documents: by key, by meaning, by values of fields, and the list of namespaces.

A store is one persona's own, of one project, task and user: what is found here can be read, and changed, by its key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Func, JSONField, Q, TextField, Value

from identity.models import Agent
from identity.principal import Principal
from memory.models import (
    Document,
    DocumentQuerySet,
    ItemType,
    ProjectScope,
    document_address,
    scope_check,
    valid_at_q,
    valid_at_sql,
)
from memory.persona import memory_of
from memory.policy import MAX_DOCUMENT_DEPTH, MAX_NAMESPACE_LABELS, MAX_SEARCH_LIMIT
from memory.search.request import SearchRequest
from memory.search.search import search
from nousweb.lib import Invalid, clock, depth_check, existing, json_check, whole_check
from nousweb.lib.transactions import sql_rows

MOST_SEARCHED = 10_000
"""Of a namespace so many documents, the latest, are searched by meaning."""
MAX_CONDITIONS = 20
"""Of one filter of values."""
ANY_LABEL = "*"
COMPARISONS = {"$eq": "exact", "$ne": "exact", "$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document that was found; `score` from 0 to 1 is its relevance, None where nothing was asked or it has none."""

    document: Document
    score: float | None = None


@dataclass(frozen=True, slots=True)
class DocumentStore:
    """The documents of `by`'s own persona that belong to a project, a task and a user, or to none.

    Raises NotAllowed for a project or user that `by` does not read, and Invalid.
    """

    agent: Agent
    by: Principal
    project: str = ""
    task: str = ""
    user: str = ""

    @property
    def scope(self) -> ProjectScope:
        return scope_check(ProjectScope(self.project, self.task, user=self.user), self.by)

    @property
    def rows(self) -> DocumentQuerySet:
        """Every version of every document."""
        scope = self.scope
        own = {"agent": self.agent, "persona": self.by.persona}
        return Document.objects.filter(**own, **scope.keys)

    def at(self, namespace: Sequence[str], key: str, *, retired_version: int | None = None) -> Document:
        """The active document of a key, or else its last version if `by` retired it and it is `retired_version`.

        Raises NotFound.
        """
        address = document_address(namespace, key, **self.scope.keys)
        wanted = Q(active=True) & valid_at_q(Document, clock.now())
        if retired_version is not None:
            wanted |= Q(version=retired_version, retired_by=self.by.name, superseded_by=None)
        return existing(
            self.rows.filter(wanted, address=address).select_related("agent").first(),
            "There is no document with this key.",
        )

    def search(
        self,
        *,
        prefix: Sequence[str] = (),
        key_prefix: str = "",
        query: str = "",
        conditions: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        min_score: float | None = None,
    ) -> list[FoundDocument]:
        """Active documents below `prefix` whose keys begin with `key_prefix` and whose values meet `conditions`: latest
        first, or best first for a `query`.

        Of a query, those of which nothing is known yet follow without a score, unless a `min_score` is asked for.
        Raises Invalid, naming the field.
        """
        whole_check("limit", limit, 1, MAX_SEARCH_LIMIT)
        rows = _meeting(self.rows.current().within(prefix), conditions or {})
        if key_prefix:
            rows = rows.filter(key__startswith=key_prefix)
        rows = rows.order_by("-created_at", "-id")
        if not query.strip():
            return [FoundDocument(row) for row in rows[offset : offset + limit]]
        whole_check("offset", offset, 0, MAX_SEARCH_LIMIT - limit)
        ids = [str(key) for key in rows.values_list("pk", flat=True)[:MOST_SEARCHED]]
        if not ids:
            return []
        result = search(
            memory_of(self.agent, self.by),
            SearchRequest(
                query=query,
                scope=self.scope,
                types=[ItemType.DOCUMENT],
                limit=offset + limit,
                min_score=min_score or 0.0,
                metadata=False,
                item_ids=ids,
            ),
        )
        scores = {hit.id: hit.score for hit in result.items}
        if min_score is None and len(scores) < offset + limit:
            rest = (key for key in ids if key not in scores)
            ordered = [*scores, *(key for key, _ in zip(rest, range(offset + limit - len(scores)), strict=False))]
        else:
            ordered = list(scores)
        held = {str(row.pk): row for row in self.rows.current().filter(pk__in=ordered[offset:])}
        return [FoundDocument(held[key], scores.get(key)) for key in ordered[offset:] if key in held]

    def namespaces(
        self,
        *,
        prefix: Sequence[str] = (),
        suffix: Sequence[str] = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[list[str]]:
        """The namespaces of active documents in order, each once, cut after `max_depth` labels.

        "*" in `prefix` or `suffix` stands for any label.
        """
        scope = self.scope
        conditions = ["agent_id = %s", "persona = %s", "project = %s", "task = %s", "user_key = %s", "active"]
        conditions.append(valid_at_sql(Document, "%s"))
        values: list[Any] = [self.agent.pk, self.by.persona, *scope.keys.values(), clock.now()]
        for labels, place in ((prefix, "{n}"), (suffix, "cardinality(namespace) - {back}")):
            conditions.append("cardinality(namespace) >= %s")
            values.append(len(labels))
            for number, label in enumerate(labels, 1):
                if label != ANY_LABEL:
                    conditions.append(f"namespace[{place.format(n=number, back=len(labels) - number)}] = %s")
                    values.append(label)
        return [
            list(row[0])
            for row in sql_rows(
                "SELECT DISTINCT namespace[1:%s] AS shown FROM memory_document"  # noqa: S608  (our own text)
                f" WHERE {' AND '.join(conditions)} ORDER BY shown LIMIT %s OFFSET %s",
                [max_depth or MAX_NAMESPACE_LABELS, *values, limit, offset],
            )
        ]


def _meeting(rows: DocumentQuerySet, conditions: Mapping[str, Any]) -> DocumentQuerySet:
    """Documents whose values hold what is asked: by name a value, or comparisons such as {"$gt": 4}."""
    depth_check("filter", conditions, MAX_DOCUMENT_DEPTH)
    json_check("filter", conditions)
    if len(conditions) > MAX_CONDITIONS:
        raise Invalid(f"filter must have at most {MAX_CONDITIONS} members.", field="filter")
    for number, (name, wanted) in enumerate(conditions.items()):
        if isinstance(wanted, dict) and any(key.startswith("$") for key in wanted):
            rows = _compared(rows, number, name, wanted)
        else:
            rows = rows.filter(value__contains={name: wanted})
            if isinstance(wanted, list):
                # To contain a list is to have at least what it has.
                rows = _compared(rows, number, name, {"$eq": wanted})
    return rows


def _compared(rows: DocumentQuerySet, number: int, name: str, wanted: Mapping[str, Any]) -> DocumentQuerySet:
    held, kind = f"held_{number}", f"kind_{number}"
    part = Func(F("value"), Value(name), function="jsonb_extract_path", output_field=JSONField())
    rows = rows.alias(**{held: part, kind: Func(part, function="jsonb_typeof", output_field=TextField(null=True))})
    for comparison, operand in wanted.items():
        if comparison not in COMPARISONS:
            raise Invalid(f"filter compares by {', '.join(COMPARISONS)}, not {comparison[:60]!r}.", field="filter")
        same = Q(**{kind: _kind(operand)})
        if operand is not None:
            same &= Q(**{f"{held}__{COMPARISONS[comparison]}": Value(operand, output_field=JSONField())})
        elif comparison in ("$eq", "$ne"):
            same |= Q(**{f"{kind}__isnull": True})
        if comparison == "$ne":
            # What is not there is another value than any, but no other than null.
            same = ~same if operand is None else Q(**{f"{kind}__isnull": True}) | ~same
        rows = rows.filter(same)
    return rows


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "number"
