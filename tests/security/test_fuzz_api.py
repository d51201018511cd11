"""Calls of the API drawn from its own document and spoilt: none may answer 5xx.

ATTACK_SCALE=full makes 10,000 of them; FUZZ_SEED=n others. A finding is printed with all that makes it again.
"""

import json
from typing import Any

import pytest

from nousweb.api import api
from tests.security.fuzzing import hostile
from tests.security.fuzzing.calls import Call, Fuzzer, seed_of
from tests.security.fuzzing.world import PEOPLE, World, ids_of, world_make
from tests.security.scale import scaled

pytestmark = pytest.mark.django_db(transaction=True)
CALLS = scaled(300, 10_000)
DEEPEST = 6


class Generator:
    """Calls of one document: as it describes them, and then less and less so."""

    def __init__(self, world: World, fuzzer: Fuzzer) -> None:
        self.world, self.rng = world, fuzzer.rng
        self.document: dict[str, Any] = json.loads(json.dumps(api.get_openapi_schema()))
        self.operations = [
            (method.upper(), path, operation)
            for path, operations in self.document["paths"].items()
            for method, operation in operations.items()
        ]

    def call(self, number: int) -> Call:
        rng = self.rng
        method, path, operation = self.operations[number % len(self.operations)]
        who = rng.choice((*self.world.tokens, *PEOPLE, "everything", "everything", "admin", "anonymous"))
        kind = rng.choices(("as described", "one value", "some values", "raw"), (2, 5, 2, 1))[0]
        spoil = {"as described": 0.0, "one value": 0.15, "some values": 0.5, "raw": 0.5}[kind]
        raw_path = self._path(path, operation, spoil)
        query = (
            hostile.queried(rng, self._query(operation, who, spoil))
            if kind != "as described"
            else ("&".join(f"{hostile.quoted(n)}={hostile.quoted(v)}" for n, v in self._query(operation, who, 0.0)))
        )
        body, content_type = b"", "application/json"
        if content := operation.get("requestBody", {}).get("content"):
            made = self.instance(content["application/json"]["schema"])
            for _ in range({"one value": 1, "some values": rng.randint(2, 6)}.get(kind, 0)):
                made = hostile.mutated(rng, made)
            body = json.dumps(made).encode() if kind == "as described" else hostile.encoded(rng, made)
        if kind == "raw":
            body, content_type = rng.choice((body, rng.choice(hostile.BODIES))), rng.choice(hostile.KINDS)
            method = rng.choice((method, method, rng.choice(hostile.METHODS)))
        headers = {} if kind == "as described" else hostile.headers(rng, 0.8 if kind == "raw" else 0.2)
        return Call(kind, who, method, raw_path, query, headers, body, content_type)

    def _path(self, template: str, operation: dict[str, Any], spoil: float) -> bytes:
        path = template.encode()
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                name = parameter["name"]
                held = self.rng.choice(self.world.ids.get(name) or ["x"]).encode()
                if self.rng.random() < spoil:
                    held = self.rng.choice(hostile.SEGMENTS)
                path = path.replace(b"{%s}" % name.encode(), held)
        return path + (self.rng.choice((b"/", b"//", b"/x", b"\x00", b"?")) if self.rng.random() < spoil / 20 else b"")

    def _query(self, operation: dict[str, Any], who: str, spoil: float) -> list[tuple[str, str]]:
        pairs = []
        for parameter in operation.get("parameters", ()):
            if parameter["in"] != "query":
                continue
            name = parameter["name"]
            if name == "agent":
                if who in PEOPLE or self.rng.random() < 0.1:
                    pairs.append((name, self.world.agent.slug if self.rng.random() > spoil else self._text()))
                continue
            if not parameter.get("required") and self.rng.random() < 0.5:
                continue
            if self.rng.random() < spoil:
                pairs.append((name, self._text()))
                continue
            made = self.instance(parameter["schema"], name)
            for value in made if isinstance(made, list) else [made]:
                pairs.append((name, "" if value is None else json.dumps(value).strip('"')))
        return pairs

    def _text(self) -> str:
        return str(
            self.rng.choice(
                (self.rng.choice(hostile.TEXTS), self.rng.choice(hostile.MOMENTS), self.rng.choice(hostile.NUMBERS))
            )
        )

    def instance(self, schema: dict[str, Any], name: str = "", depth: int = 0) -> Any:
        """A value that the schema allows, with real ids where the name asks for one."""
        rng = self.rng
        if reference := schema.get("$ref"):
            return self.instance(self.document["components"]["schemas"][reference.rsplit("/", 1)[1]], name, depth + 1)
        for union in ("anyOf", "oneOf", "allOf"):
            if union in schema:
                return self.instance(rng.choice(schema[union]), name, depth + 1)
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type")
        if kind == "object" or "properties" in schema:
            required = schema.get("required", ())
            if depth > DEEPEST:
                return {}
            return {
                key: self.instance(inner, key, depth + 1)
                for key, inner in schema.get("properties", {}).items()
                if key in required or rng.random() < 0.4
            }
        if kind == "array":
            return [self.instance(schema.get("items", {}), name, depth + 1) for _ in range(rng.randint(0, 3))]
        if kind == "integer":
            held = (
                self.world.ids.get("event_id", ["1"]) if "event" in name else [str(schema.get("minimum", 1)), "2", "5"]
            )
            return int(rng.choice(held))
        if kind == "number":
            return rng.choice((0.0, 0.3, 1.0, 0, 1, schema.get("minimum", 0.5)))
        if kind == "boolean":
            return rng.random() < 0.5
        if kind == "null":
            return None
        return self._string(schema, name)

    def _string(self, schema: dict[str, Any], name: str) -> str:
        rng = self.rng
        if schema.get("format") == "date-time":
            return rng.choice(("2026-06-01T12:00:00Z", "2025-01-01T00:00:00+02:00", rng.choice(hostile.MOMENTS)))
        if name in self.world.ids:
            return rng.choice(self.world.ids[name])
        if schema.get("format") == "uuid":
            return rng.choice(self.world.ids["fact_id"])
        words = {
            "kind": ("user_input", "actor_output", "tool_call"), "severity": ("warn", "block"), "scope": ("task",
            "global"),
            "outcome": ("success", "failure"), "stakes": ("low", "high"), "category": ("person", "rule", "concept"),
            "mode": ("apply", "propose"), "type": ("fact", "episode", "note"), "match": ("regex", "semantic"),
            "frame": ("task", "decision"), "pattern": ("secret|password", "x{3}"), "visibility": ("public", "private"),
        }  # fmt: skip
        if name in words:
            return rng.choice(words[name])
        return rng.choice(
            ("Tim sails on Mondays.", "What did we decide about checkout?", "a", "", rng.choice(hostile.TEXTS))
        )


def test_fuzz_of_the_api_gives_no_5xx():
    world, fuzzer = world_make(), Fuzzer(seed_of(1))
    generator = Generator(world, fuzzer)
    with fuzzer.listening():
        for number in range(CALLS):
            call = generator.call(number)
            client = world.clients.get(call.who, world.clients["anonymous"])
            headers = {"X-CSRFToken": client.cookies["csrftoken"].value} if call.who in PEOPLE else {}
            if call.who in world.tokens:
                headers = {"Authorization": f"Bearer {world.tokens[call.who]}"}
            fuzzer.send(call, client, headers)
            world.stay_signed_in(call.who)
            if number % 500 == 499:
                world.sign_in()
                world.ids.update(ids_of(world.agent))
    fuzzer.check()
