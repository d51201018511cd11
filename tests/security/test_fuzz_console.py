"""Pages and forms of the console with hostile addresses, parameters and fields: none may answer 5xx.

Addresses come from the list of routes, and from the links and forms of the pages themselves. ATTACK_SCALE=full makes
10,000 calls; FUZZ_SEED=n others. A finding is printed with all that makes it again.
"""

import gzip
import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes, urlencode, urlsplit

import pytest
from django.http import HttpResponse
from django.urls import URLPattern, URLResolver, get_resolver

from tests.security.fuzzing import hostile
from tests.security.fuzzing.calls import Call, Fuzzer, seed_of
from tests.security.fuzzing.world import PEOPLE, World, ids_of, world_make
from tests.security.scale import scaled

pytestmark = pytest.mark.django_db(transaction=True)
CALLS = scaled(300, 10_000)
MAX_FORMS = 3_000
FORM = "application/x-www-form-urlencoded"
LEFT_OUT = ("api/", "static/")
PARAMETER = re.compile(r"<(?:(\w+):)?(\w+)>")
QUERY_NAMES = (
    "q", "page", "sort", "order", "dir", "agent", "persona", "kind", "status", "state", "category", "tag", "scope",
    "from",
    "to", "since", "until", "before", "after", "cursor", "as_of", "recorded_as_of", "limit", "type", "item", "version",
    "base",
    "other", "a", "b", "view", "mode", "verdict", "days", "period", "section", "risk", "author", "action", "next",
    "applied",
    "batch", "ids", "id", "selected", "session", "input", "loop", "subject", "outcome", "run", "left", "right",
    "profile",
)  # fmt: skip


class Page(HTMLParser):
    """The links and forms of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.forms: list[dict[str, Any]] = []
        self._select = self._area = ""
        self.feed(text)

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in given}
        for name in ("href", "hx-get"):
            if attributes.get(name, "").startswith(("/", "?")):
                self.links.append(attributes[name])
        if tag == "form" or "hx-post" in attributes:
            action = attributes.get("hx-post") or attributes.get("action", "")
            method = "POST" if "hx-post" in attributes else attributes.get("method", "get").upper()
            self.forms.append({"action": action, "method": method, "fields": []})
        fields = self.forms[-1]["fields"] if self.forms else []
        name = attributes.get("name", "")
        if tag in ("input", "button") and name:
            if attributes.get("type") not in ("checkbox", "radio") or "checked" in attributes or len(fields) % 2:
                fields.append((name, attributes.get("value", "on")))
            if (formaction := attributes.get("formaction")) and self.forms:
                self.forms.append({"action": formaction, "method": "POST", "fields": list(fields)})
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select:
            if "selected" in attributes or len(attributes.get("value", "")) % 2:
                fields.append((self._select, attributes.get("value", "")))
        elif tag == "textarea" and name:
            self._area = name
            fields.append((name, ""))

    def handle_data(self, data: str) -> None:
        if self._area and self.forms and self.forms[-1]["fields"]:
            self.forms[-1]["fields"][-1] = (self._area, data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = ""
        elif tag == "textarea":
            self._area = ""


def routes(resolver: Any = None, before: str = "") -> list[tuple[str, str]]:
    """The address of each page, with its parameters as <kind:name>, and its name."""
    found: list[tuple[str, str]] = []
    for pattern in (resolver or get_resolver()).url_patterns:
        route = before + str(pattern.pattern)
        if route.startswith(LEFT_OUT):
            continue
        if isinstance(pattern, URLResolver):
            found += routes(pattern, route)
        elif isinstance(pattern, URLPattern) and "(?" not in route:
            found.append((route, pattern.name or ""))
    return found


class Generator:
    def __init__(self, world: World, fuzzer: Fuzzer) -> None:
        self.world, self.rng = world, fuzzer.rng
        self.routes = routes()
        self.links: list[str] = []
        self.forms: list[tuple[str, str, dict[str, Any]]] = []
        self._known: set[str] = set()

    def learn(self, call: Call, answer: HttpResponse) -> None:
        """Keep the links and forms of a page for later calls."""
        if answer.status_code not in (200, 422) or not answer.get("Content-Type", "").startswith("text/html"):
            return
        packed = answer.get("Content-Encoding") == "gzip"
        page = Page((gzip.decompress(answer.content) if packed else answer.content).decode())
        here = call.path.decode("utf-8", "replace")
        for link in page.links:
            whole = here + link if link.startswith("?") else link
            if whole not in self._known and not whole.startswith("/static/") and len(self.links) < MAX_FORMS:
                self._known.add(whole)
                self.links.append(whole)
        for form in page.forms:
            action = form["action"] or here
            key = f"{call.who} {form['method']} {action} {sorted({name for name, _ in form['fields']})}"
            if key not in self._known and len(self.forms) < MAX_FORMS and "logout" not in action:
                self._known.add(key)
                self.forms.append((call.who, action, form))

    def call(self, number: int) -> Call:
        choice = self.rng.random()
        if choice < 0.4 or number < 60:
            return self._route_call(number)
        if choice < 0.65 and self.links:
            return self._link_call()
        return self._form_call() if self.forms else self._route_call(number)

    def _route_call(self, number: int) -> Call:
        rng = self.rng
        route, name = self.routes[number % len(self.routes)]
        spoil = rng.choice((0.0, 0.0, 0.3))

        def held(found: re.Match[str]) -> str:
            if rng.random() < spoil:
                return rng.choice(hostile.SEGMENTS).decode("latin-1")
            return (
                rng.choice(self.world.ids.get(self._ids_name(found[2], route, name)) or ["1"])
                .encode()
                .decode("latin-1")
            )

        path = "/" + PARAMETER.sub(held, route)
        method = "GET" if rng.random() < 0.85 else rng.choice((*hostile.METHODS, "POST", "POST"))
        query = "" if rng.random() < 0.3 else hostile.queried(rng, self._pairs())
        body, kind = (
            (b"", FORM) if method == "GET" else (rng.choice(hostile.BODIES), rng.choice((FORM, *hostile.KINDS)))
        )
        return Call(
            "route",
            rng.choice((*PEOPLE, "admin", "anonymous")),
            method,
            path.encode("latin-1"),
            query,
            self._headers(),
            body,
            kind,
        )

    @staticmethod
    def _ids_name(parameter: str, route: str, name: str) -> str:
        if parameter not in ("pk", "object_id"):
            return parameter
        for word, ids in (
            ("token", "token"), ("audit", "audit"), ("fact", "fact"), ("episode", "episode"), ("decision", "decision"),
            ("procedure", "procedure"), ("censor", "censor"), ("event", "event_id"), ("context", "run"), ("questions",
            "review"),
            ("memory", "review"), ("review", "proposal"),
        ):  # fmt: skip
            if word in route or word in name:
                return ids
        return "fact"

    def _pairs(self) -> list[tuple[str, str]]:
        return [(self.rng.choice(QUERY_NAMES), self._text()) for _ in range(self.rng.randint(1, 4))]

    def _text(self) -> str:
        rng = self.rng
        known = rng.choice(list(self.world.ids.values()))
        return str(
            rng.choice(
                (rng.choice(hostile.TEXTS), rng.choice(hostile.MOMENTS), rng.choice(hostile.NUMBERS), rng.choice(known))
            )
        )

    def _headers(self) -> dict[str, str]:
        given = {"HX-Request": "true"} if self.rng.random() < 0.25 else {}
        return given | hostile.headers(self.rng, 0.15)

    def _link_call(self) -> Call:
        rng = self.rng
        parts = urlsplit(rng.choice(self.links))
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        for place in range(len(pairs)):
            if rng.random() < 0.6:
                pairs[place] = (pairs[place][0], self._text())
        if rng.random() < 0.4:
            pairs += self._pairs()
        return Call(
            "link", rng.choice((*PEOPLE, "admin")), "GET", unquote_to_bytes(parts.path), hostile.queried(rng, pairs),
            self._headers(), b"", FORM,
        )  # fmt: skip

    def _form_call(self) -> Call:
        rng = self.rng
        who, action, form = rng.choice(self.forms)
        if rng.random() < 0.1:
            who = rng.choice(PEOPLE)
        parts = urlsplit(action)
        fields = list(form["fields"])
        for place, (name, _) in enumerate(fields):
            if name != "csrfmiddlewaretoken" and rng.random() < 0.35:
                fields[place] = (name, self._text())
        if fields and rng.random() < 0.15:
            fields.pop(rng.randrange(len(fields)))
        if fields and rng.random() < 0.15:
            fields.append((rng.choice(fields)[0], self._text()))
        if form["method"] == "GET":
            query = hostile.queried(rng, [*parse_qsl(parts.query), *fields])
            return Call("form", who, "GET", unquote_to_bytes(parts.path), query, self._headers(), b"", FORM)
        # The cookie of whoever sends it, not of whoever saw the form.
        token = self.world.clients[who].cookies["csrftoken"].value if rng.random() > 0.02 else self._text()
        fields = [(name, token if name == "csrfmiddlewaretoken" else text) for name, text in fields]
        if not any(name == "csrfmiddlewaretoken" for name, _ in fields):
            fields.append(("csrfmiddlewaretoken", token))
        encoded = [
            (name.encode("utf-8", "surrogatepass"), text.encode("utf-8", "surrogatepass")) for name, text in fields
        ]
        body, kind = urlencode(encoded).encode(), FORM
        if rng.random() < 0.15:
            body, kind = self._multipart(encoded), "multipart/form-data; boundary=edge"
        return Call("form", who, "POST", unquote_to_bytes(parts.path), parts.query, self._headers(), body, kind)

    def _multipart(self, fields: list[tuple[bytes, bytes]]) -> bytes:
        """The fields with a file in the place of one or another."""
        lines = []
        for name, text in fields:
            file = b'; filename="a.txt"' if self.rng.random() < 0.2 and name != b"csrfmiddlewaretoken" else b""
            clean = name.replace(b"\r", b"").replace(b"\n", b"").replace(b'"', b"")
            lines += [b'--edge\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (clean, file, text)]
        return b"".join(lines) + b"--edge--\r\n"


def test_fuzz_of_the_console_gives_no_5xx():
    world, fuzzer = world_make(), Fuzzer(seed_of(1))
    generator = Generator(world, fuzzer)
    with fuzzer.listening():
        for number in range(CALLS):
            call = generator.call(number)
            answer = fuzzer.send(call, world.clients[call.who])
            generator.learn(call, answer)
            world.stay_signed_in(call.who)
            if number % 50 == 49:
                world.sign_in()
                world.ids.update(ids_of(world.agent))
    fuzzer.check()
