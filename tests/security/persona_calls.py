"""What a token can call: plausible bodies, with real ids, for every operation of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

TEXTS = (
    "Tim lives in Silver Spring.",
    "Tim lives in Rockville.",
    "Tim prefers Celsius for temperatures.",
    "Tim prefers Fahrenheit for temperatures.",
    "The ledger export runs at nine.",
    "The ledger export runs at ten o'clock.",
    "The ledger export writes CSV files.",
    "Deploys happen on Tuesdays.",
    "Tim's twin is Ann.",
    "Tim's twin is Eva.",
    "A zeppelin crossed the river at night.",
)
WORDS = ("ledger", "zeppelin", "Tuesdays", "night", "river")
LOOPS = ("morning", "evening")
SESSIONS = ("s1", "s2")
NOBODY = str(UUID(int=0))

Call = tuple[str, str, dict[str, Any], Any]
"""Method, path under /api, query and body."""


@dataclass
class Known:
    """The ids that a caller has been given, by kind."""

    ids: dict[str, list[str]] = field(default_factory=dict)

    def learn(self, value: Any) -> None:
        """Take every id out of an answer."""
        if isinstance(value, list):
            for one in value:
                self.learn(one)
        if isinstance(value, dict):
            if isinstance(value.get("review"), str):
                self.ids.setdefault("review", []).append(value["review"])
            kind = next((kind for kind, marks in MARKS.items() if marks <= value.keys()), "")
            if kind and value["id"]:
                known = self.ids.setdefault(kind, [])
                if str(value["id"]) not in known:
                    known.append(str(value["id"]))
            for one in value.values():
                self.learn(one)

    def one(self, kind: str, rng: Random) -> str:
        """One of the ids of a kind, mostly a late one; an id of nothing when there is none."""
        held = self.ids.get(kind, [])
        if not held or rng.random() < 0.03:
            return "1" if kind == "event" else NOBODY
        return held[-1] if rng.random() < 0.4 else rng.choice(held)


MARKS: dict[str, set[str]] = {
    "fact": {"id", "confirmation_count"},
    "subject": {"id", "aliases", "is_user"},
    "proposal": {"id", "guardrail"},
    "event": {"id", "ts", "loop_id"},
    "episode": {"id", "summary_kind"},
    "decision": {"id", "stakes"},
    "document": {"id", "namespace", "first_created_at"},
    "procedure": {"id", "activation_count", "steps"},
    "censor": {"id", "escalation_threshold"},
    "review": {"id", "resolution"},
    "expectation": {"id", "requirement"},
    "run": {"id", "system_prompt"},
    "item": {"id", "relevance", "added_at"},
    "thread": {"id", "text", "added_at"},
}
"""Fields by which an answer shows of what kind it is, the telling ones first."""

Made = tuple[dict[str, Any], Any]
"""Query and body."""
Maker = Callable[[Random, Known], Made]


def text(rng: Random) -> str:
    return rng.choice(TEXTS)


def fact(rng: Random) -> dict[str, Any]:
    return {
        "content": text(rng),
        "subject": rng.choice(["Tim", "", "ledger", "Timothy", "the user", "ledger export"]),
        "category": rng.choice(["person", "preference", "technical", "concept", "rule"]),
        "confidence": rng.choice([1.0, 0.4]),
    }


def events(rng: Random) -> dict[str, Any]:
    kinds = ["user_input", "tool_call", "tool_result", "error", "actor_output", "system_event"]
    return {
        "events": [
            {"kind": rng.choice(kinds), "content": text(rng), "loop_id": rng.choice(LOOPS)}
            | ({"key": f"k{rng.randrange(4)}"} if rng.random() < 0.3 else {})
            for _ in range(rng.randrange(1, 4))
        ]
    }


def question(rng: Random, known: Known) -> dict[str, Any]:
    return {
        "session_id": rng.choice(SESSIONS),
        "input": rng.choice(["How does the ledger export run?", "When do deploys happen?", "hey", text(rng)]),
        "explain": rng.random() < 0.5,
        "dry_run": rng.random() < 0.1,
        "budget": rng.choice([None, 300, 4000]),
    }


def section_of(rng: Random) -> str:
    return rng.choice(["preferences", "protocols", "values", "character", "boundaries", "environment"])


def page(rng: Random, **more: Any) -> dict[str, Any]:
    return {"limit": rng.choice([1, 2, 50]), **more}


MAKERS: dict[str, Maker] = {
    "GET /api/identity": lambda rng, known: ({}, None),
    "GET /api/identity/{section}": lambda rng, known: ({}, None),
    "GET /api/identity/{section}/history": lambda rng, known: ({}, None),
    "GET /api/identity/{section}/diff": lambda rng, known: ({"from": 1, "to": rng.choice([1, 2])}, None),
    "PUT /api/identity/{section}": lambda rng, known: (
        {},
        {
            "content": text(rng),
            "reason": text(rng),
            "mode": rng.choice(["auto", "auto", "propose"]),
            "base_version": rng.choice([None, None, 0, 1]),
        },
    ),
    "GET /api/proposals/{proposal_id}": lambda rng, known: ({}, None),
    "GET /api/changes": lambda rng, known: (page(rng, bodies=rng.choice(["true", "false"])), None),
    "GET /api/settings": lambda rng, known: ({}, None),
    "PUT /api/settings": lambda rng, known: ({}, {"budgets": {"facts": rng.randrange(400)}}),
    "GET /api/settings/history": lambda rng, known: ({}, None),
    "POST /api/settings/restore": lambda rng, known: ({}, {"version": 0}),
    "GET /api/webhooks": lambda rng, known: ({}, None),
    "POST /api/webhooks": lambda rng, known: ({}, {"url": "https://example.org/", "scopes": ["memory:read"]}),
    "PATCH /api/webhooks/{webhook_id}": lambda rng, known: ({}, {"active": False}),
    "DELETE /api/webhooks/{webhook_id}": lambda rng, known: ({}, None),
    "GET /api/webhooks/{webhook_id}/deliveries": lambda rng, known: (page(rng), None),
    "POST /api/webhooks/{webhook_id}/replay": lambda rng, known: ({}, {}),
    "POST /api/reinitiate": lambda rng, known: ({}, {"reason": "x"}),
    "POST /api/facts": lambda rng, known: ({}, fact(rng)),
    "GET /api/facts": lambda rng, known: (page(rng, state=rng.choice(["active", "retired", "all"])), None),
    "GET /api/facts/{fact_id}": lambda rng, known: ({}, None),
    "PATCH /api/facts/{fact_id}": lambda rng, known: ({}, {"importance": 0.9}),
    "GET /api/facts/{fact_id}/history": lambda rng, known: (page(rng), None),
    "POST /api/facts/{fact_id}/confirm": lambda rng, known: ({}, None),
    "POST /api/facts/{fact_id}/expiry": lambda rng, known: ({}, {"ttl": rng.choice([None, 3600])}),
    "POST /api/facts/{fact_id}/supersede": lambda rng, known: (
        {},
        {"by": {"content": text(rng)}} if rng.random() < 0.6 else {"fact_id": known.one("fact", rng)},
    ),
    "POST /api/facts/{fact_id}/invalidate": lambda rng, known: ({}, None),
    "POST /api/facts/{fact_id}/restore": lambda rng, known: ({}, None),
    "GET /api/profile": lambda rng, known: (page(rng), None),
    "GET /api/subjects": lambda rng, known: (page(rng), None),
    "POST /api/subjects": lambda rng, known: ({}, {"name": "Tim"}),
    "GET /api/subjects/{subject_id}": lambda rng, known: ({}, None),
    "PATCH /api/subjects/{subject_id}": lambda rng, known: ({}, {"kind": "person"}),
    "GET /api/subjects/{subject_id}/history": lambda rng, known: (page(rng), None),
    "POST /api/subjects/{subject_id}/aliases": lambda rng, known: ({}, {"spelling": "Timothy"}),
    "POST /api/subjects/{subject_id}/merge": lambda rng, known: ({}, {"into": known.one("subject", rng)}),
    "POST /api/subjects/{subject_id}/split": lambda rng, known: ({}, {"facts": [known.one("fact", rng)], "name": "x"}),
    "POST /api/subjects/{subject_id}/undo": lambda rng, known: ({}, {"change": NOBODY}),
    "POST /api/events": lambda rng, known: ({}, events(rng)),
    "GET /api/events": lambda rng, known: (page(rng, order=rng.choice(["latest", "earliest"])), None),
    "GET /api/events/{event_id}": lambda rng, known: ({}, None),
    "GET /api/loops": lambda rng, known: (page(rng), None),
    "GET /api/loops/{loop_id}": lambda rng, known: ({}, None),
    "POST /api/loops/{loop_id}/close": lambda rng, known: ({}, None),
    "GET /api/stm": lambda rng, known: ({"q": text(rng)}, None),
    "GET /api/recall": lambda rng, known: ({"q": text(rng), "min_score": rng.choice([0, 0.2])}, None),
    "GET /api/recall/recent": lambda rng, known: ({"hours": rng.choice([1, 48])}, None),
    "GET /api/recall/{type}/{memory_id}": lambda rng, known: ({"around": rng.choice([0, 3])}, None),
    "GET /api/index": lambda rng, known: ({}, None),
    "GET /api/lifecycle": lambda rng, known: (page(rng), None),
    "GET /api/reviews": lambda rng, known: (page(rng, status="all"), None),
    "GET /api/reviews/{review_id}": lambda rng, known: ({}, None),
    "POST /api/reviews/{review_id}/resolve": lambda rng, known: ({}, {"resolution": "same"}),
    "POST /api/reviews/{review_id}/undo": lambda rng, known: ({}, None),
    "POST /api/censors": lambda rng, known: (
        {},
        {
            "pattern": rng.choice(WORDS),
            "severity": rng.choice(["warn", "block"]),
            "escalation_threshold": rng.choice([1, 2]),
            "match": rng.choice(["regex", "regex", "semantic"]),
        },
    ),
    "GET /api/censors": lambda rng, known: (page(rng, state="all"), None),
    "POST /api/censors/check": lambda rng, known: ({}, {"text": text(rng), "dry": rng.random() < 0.2}),
    "GET /api/censors/{censor_id}": lambda rng, known: ({}, None),
    "PATCH /api/censors/{censor_id}": lambda rng, known: ({}, {"active": False}),
    "POST /api/censors/{censor_id}/false-positive": lambda rng, known: ({}, None),
    "POST /api/decisions": lambda rng, known: (
        {},
        {"description": text(rng), "episode": known.one("episode", rng) if rng.random() < 0.5 else None},
    ),
    "GET /api/decisions": lambda rng, known: (page(rng), None),
    "GET /api/decisions/{decision_id}": lambda rng, known: ({}, None),
    "PATCH /api/decisions/{decision_id}": lambda rng, known: ({}, {"importance": 0.9}),
    "POST /api/decisions/{decision_id}/review": lambda rng, known: ({}, {"outcome": "success", "note": text(rng)}),
    "POST /api/episodes": lambda rng, known: ({}, {"title": text(rng), "detail": text(rng)}),
    "GET /api/episodes": lambda rng, known: (page(rng), None),
    "GET /api/episodes/{episode_id}": lambda rng, known: (page(rng), None),
    "PATCH /api/episodes/{episode_id}": lambda rng, known: ({}, {"title": text(rng), "active": rng.random() < 0.7}),
    "POST /api/episodes/{episode_id}/events": lambda rng, known: (
        {},
        {"text": text(rng), "event_ids": [int(known.one("event", rng))]},
    ),
    "POST /api/episodes/{episode_id}/close": lambda rng, known: ({}, {"outcome": "success"}),
    "PUT /api/documents": lambda rng, known: (
        {},
        {
            "namespace": ["notes"],
            "key": rng.choice(WORDS),
            "value": {"text": text(rng)},
            "base_version": rng.choice([None, None, 0, 1]),
        },
    ),
    "GET /api/documents": lambda rng, known: (page(rng, state="all"), None),
    "GET /api/documents/item": lambda rng, known: ({"namespace": ["notes"], "key": rng.choice(WORDS)}, None),
    "DELETE /api/documents/item": lambda rng, known: ({"namespace": ["notes"], "key": rng.choice(WORDS)}, None),
    "POST /api/documents/refresh": lambda rng, known: ({}, {"ids": [known.one("document", rng)]}),
    "POST /api/sources": lambda rng, known: ({}, {"path": rng.choice(WORDS), "sha256": rng.choice("ab") * 64}),
    "GET /api/users": lambda rng, known: ({}, None),
    "GET /api/users/export": lambda rng, known: ({"user": rng.choice(WORDS)}, None),
    "POST /api/users/assign": lambda rng, known: ({}, {"user": rng.choice(WORDS)}),
    "POST /api/users/erase": lambda rng, known: ({}, {"user": rng.choice(WORDS), "reason": "Asked."}),
    "POST /api/documents/search": lambda rng, known: (
        {},
        {"namespace": ["notes"], "query": rng.choice(["", text(rng)])},
    ),
    "GET /api/documents/namespaces": lambda rng, known: ({}, None),
    "GET /api/documents/{document_id}": lambda rng, known: ({}, None),
    "GET /api/documents/{document_id}/versions": lambda rng, known: (page(rng), None),
    "POST /api/documents/{document_id}/restore": lambda rng, known: ({}, {}),
    "POST /api/documents/{document_id}/expiry": lambda rng, known: ({}, {"ttl": rng.choice([None, 3600])}),
    "POST /api/documents/{document_id}/release": lambda rng, known: ({}, None),
    "POST /api/procedures": lambda rng, known: ({}, {"name": text(rng), "steps": [text(rng)]}),
    "GET /api/procedures": lambda rng, known: (page(rng), None),
    "GET /api/procedures/{procedure_id}": lambda rng, known: ({}, None),
    "PATCH /api/procedures/{procedure_id}": lambda rng, known: ({}, {"description": text(rng)}),
    "POST /api/procedures/{procedure_id}/activate": lambda rng, known: ({}, None),
    "POST /api/procedures/{procedure_id}/report": lambda rng, known: ({}, {"success": rng.random() < 0.5}),
    "GET /api/working/{session_id}": lambda rng, known: ({}, None),
    "PUT /api/working/{session_id}": lambda rng, known: ({}, {"task": text(rng), "capacity": 2}),
    "DELETE /api/working/{session_id}": lambda rng, known: ({}, None),
    "POST /api/working/{session_id}/items": lambda rng, known: ({}, {"text": text(rng)}),
    "DELETE /api/working/{session_id}/items/{item_id}": lambda rng, known: ({}, None),
    "POST /api/working/{session_id}/threads": lambda rng, known: ({}, {"text": text(rng)}),
    "DELETE /api/working/{session_id}/threads/{thread_id}": lambda rng, known: ({}, None),
    "POST /api/context": lambda rng, known: ({}, question(rng, known)),
    "POST /api/context/{run_id}/response": lambda rng, known: ({}, {"response": text(rng)}),
    "GET /api/expectations": lambda rng, known: (page(rng, active="all"), None),
    "POST /api/expectations": lambda rng, known: (
        {},
        {"request": {"input": text(rng)}, "requirement": "absent", "target": "text", "text": text(rng)},
    ),
    "POST /api/expectations/run": lambda rng, known: ({}, {}),
    "GET /api/expectations/{expectation_id}": lambda rng, known: ({}, None),
    "PATCH /api/expectations/{expectation_id}": lambda rng, known: ({}, {"text": text(rng)}),
    "DELETE /api/expectations/{expectation_id}": lambda rng, known: ({}, None),
    "GET /api/expectations/{expectation_id}/results": lambda rng, known: ({}, None),
    "GET /api/fingerprints": lambda rng, known: ({}, None),
    "POST /api/context/{run_id}/outcome": lambda rng, known: ({}, {"outcome": rng.choice(["success", "failure"])}),
}
"""One for each operation of the document."""

PEOPLES = {
    "DELETE /api/expectations/{expectation_id}",
    "DELETE /api/webhooks/{webhook_id}",
    "GET /api/settings",
    "GET /api/settings/history",
    "GET /api/webhooks",
    "GET /api/webhooks/{webhook_id}/deliveries",
    "PATCH /api/censors/{censor_id}",
    "PATCH /api/expectations/{expectation_id}",
    "PATCH /api/facts/{fact_id}",
    "PATCH /api/subjects/{subject_id}",
    "PATCH /api/webhooks/{webhook_id}",
    "POST /api/censors/{censor_id}/false-positive",
    "POST /api/documents/{document_id}/release",
    "POST /api/documents/{document_id}/restore",
    "POST /api/expectations",
    "POST /api/facts/{fact_id}/invalidate",
    "POST /api/facts/{fact_id}/restore",
    "POST /api/reinitiate",
    "POST /api/reviews/{review_id}/resolve",
    "POST /api/reviews/{review_id}/undo",
    "POST /api/settings/restore",
    "POST /api/subjects",
    "POST /api/subjects/{subject_id}/aliases",
    "POST /api/subjects/{subject_id}/merge",
    "POST /api/subjects/{subject_id}/split",
    "POST /api/subjects/{subject_id}/undo",
    "POST /api/users/assign",
    "POST /api/webhooks",
    "POST /api/webhooks/{webhook_id}/replay",
    "PUT /api/settings",
}
"""Operations that no token may call; they are tried nevertheless, seldom, since all that they answer is 403."""
WEIGHTS = {"GET": 1, "POST": 4, "PUT": 4, "PATCH": 2, "DELETE": 2}
OFTEN = {
    "GET /api/users": 1,
    "GET /api/users/export": 1,
    "POST /api/users/erase": 1,
    "POST /api/context": 24,
    "POST /api/context/{run_id}/response": 24,
    "POST /api/censors/check": 12,
    "PUT /api/identity/{section}": 12,
    "POST /api/events": 12,
    "POST /api/facts": 12,
    "PUT /api/documents": 12,
    "GET /api/documents/item": 6,
    "DELETE /api/documents/item": 4,
    "GET /api/documents/{document_id}/versions": 6,
    "POST /api/episodes": 8,
    "PATCH /api/episodes/{episode_id}": 12,
    "POST /api/decisions": 12,
    "PATCH /api/decisions/{decision_id}": 12,
    "POST /api/procedures": 12,
    "PATCH /api/procedures/{procedure_id}": 12,
    "GET /api/reviews": 4,
    "GET /api/reviews/{review_id}": 6,
    "GET /api/working/{session_id}": 4,
    "PUT /api/working/{session_id}": 8,
    "POST /api/working/{session_id}/items": 12,
    "DELETE /api/working/{session_id}/items/{item_id}": 12,
    "POST /api/working/{session_id}/threads": 8,
    "DELETE /api/working/{session_id}/threads/{thread_id}": 8,
}
"""What changes something is called more often, most often what does so only when repeated or after something else."""


def call_make(operation: str, rng: Random, known: Known) -> Call:
    """A call of an operation of the document, with ids that the caller has been given."""
    method, path = operation.split(" ")
    query, body = MAKERS[operation](rng, known)
    type_ = rng.choice(["fact", "event", "episode", "decision", "procedure", "document"])
    places = {
        "type": type_,
        "memory_id": known.one(type_, rng),
        "section": section_of(rng),
        "loop_id": rng.choice(LOOPS),
        "session_id": rng.choice(SESSIONS),
        "webhook_id": NOBODY,
        **{f"{kind}_id": known.one(kind, rng) for kind in MARKS},
    }
    return method, path.removeprefix("/api").format(**places), query, body


def operation_choose(rng: Random) -> str:
    names = list(MAKERS)
    return rng.choices(names, [_weight(name) for name in names])[0]


def _weight(operation: str) -> int:
    return 1 if operation in PEOPLES else OFTEN.get(operation, WEIGHTS[operation.split(" ")[0]])
