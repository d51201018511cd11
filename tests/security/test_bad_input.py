"""Input that broke something once: each gets a precise refusal, or is taken, and nothing answers 5xx."""

import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from identity.models import AuditEvent
from identity.principal import Principal
from identity.services.agents import agent_create
from memory.models import Event, Fact, SearchItem
from memory.services.facts import fact_learn, fact_merge
from tests.api.problems import assert_problem, each_once
from tests.factories import SYSTEM, make_person
from tests.http import signed_in, wsgi_application

pytestmark = pytest.mark.django_db

EVENT = {"kind": "user_input", "content": "Hello.", "loop_id": "here", "key": "k"}
UNSEEN = {
    "empty": "",
    "white space": " \t\n\u00a0\u2003\u3000",
    "zero-width": "\u200b\u200c\u200d\u2060\ufeff",
    "marks of direction": "\u200e\u202a\u202c\u2066\u2069",
    "fillers": "\u3164\u115f\u1160\uffa0\u2800",
    "soft hyphen, tags and selectors": "\u00ad\U000e0041\ufe0f\u034f",
}
unseen = pytest.mark.parametrize("blank", UNSEEN.values(), ids=UNSEEN.keys())


@pytest.fixture(scope="module")
def ada(module_db):
    """Made once for hundreds of inputs; what one of them changes is undone."""
    return agent_create(slug="ada", name="Ada", kind="knight", prompt="You are Ada, calm and exact.", by=SYSTEM)


@pytest.fixture(scope="module")
def charlie(module_db):
    return make_person("charlie", "Administrator")


@pytest.mark.parametrize(
    ("stored", "repeated", "status"),
    [
        ("9" * 400, "9" * 400, 201),
        ("9" * 400, "9" * 399 + "8", 409),
        ("9" * 400, "1.5", 409),
        ("1.5", "9" * 400, 409),
        ("-" + "9" * 400, "1e300", 409),
        ("1e300", "1e300", 201),
        ("1e300", "1" + "0" * 300, 201),
        ("-0.0", "-0.0", 201),
        ("5e-324", "5e-324", 201),
        ("0.1", "0.1", 201),
    ],
)
def test_idempotency_key_compares_numbers_of_any_size(api, actor_token, stored, repeated, status):
    """A number of 400 digits beside a float was more than a float holds."""
    caller = api.as_token(actor_token)

    def body(number: str) -> bytes:
        # As text: Python would write 1e300 otherwise.
        event = json.dumps(EVENT | {"metadata": {"n": "number"}}).replace('"number"', number)
        return f'{{"events": [{event}]}}'.encode()

    assert caller.post("/events", body(stored)).status_code == 201
    again = caller.post("/events", body(repeated))
    assert again.status_code == status, again.content
    assert Event.objects.count() == 1


API_FORMS = ("/api/facts", "/api/events", "/api/context", "/api/identity/values", "/api/reinitiate")
CONSOLE_FORMS = ("/inbox/change/", "/login/", "/logout/", "/agents/ada/facts/add/", "/agents/new/", "/admin/login/")
BAD_FORMS = {
    "no boundary": ("multipart/form-data", b"x"),
    "an empty boundary": ("multipart/form-data; boundary=", b"x"),
    "a long boundary": ("multipart/form-data; boundary=" + "b" * 300, b"x"),
    "another boundary": ("multipart/form-data; boundary=a", b"--b\r\n\r\nx"),
    "a bad transfer encoding": (
        "multipart/form-data; boundary=a",
        b'--a\r\nContent-Disposition: form-data; name="x"\r\nContent-Transfer-Encoding: base64\r\n\r\n%\r\n--a--',
    ),
    "an unknown charset": ("application/x-www-form-urlencoded; charset=nothing", b"a=%ff"),
    "too many fields": ("application/x-www-form-urlencoded", b"&".join(b"a=1" for _ in range(2_000))),
}


@pytest.mark.parametrize(
    ("path", "form"),
    [*each_once(API_FORMS, [*BAD_FORMS]), *((path, form) for path in CONSOLE_FORMS for form in BAD_FORMS)],
)
def test_form_unreadable_is_refused(ada, charlie, path, form):
    """Whoever is signed in has the CSRF token looked for in the form, also where JSON is expected."""
    kind, body = BAD_FORMS[form]
    client = signed_in(charlie)
    method = "PUT" if "identity" in path else "POST"
    before = AuditEvent.objects.count()
    for headers in ({}, {"X-CSRFToken": client.cookies["csrftoken"].value}):
        answer = client.generic(method, f"{path}?agent=ada", body, content_type=kind, headers=headers)
        assert 200 <= answer.status_code < 500, answer.content
        if path.startswith("/api/"):
            assert answer.status_code in (400, 403, 415, 422)
            assert_problem(answer, answer.status_code, answer.json()["code"])
    assert AuditEvent.objects.count() == before


NOWHERE = ("/nothing/", "/api/nothing", "/api/facts//restore", "/agents/ada/nothing/", "/admin/nothing/", "/static/x")


@pytest.mark.parametrize(("path", "host"), each_once(NOWHERE, ["testserver", "localhost\\@x", "evil.example"]))
@pytest.mark.parametrize("form", BAD_FORMS)
def test_form_unreadable_is_refused_at_unknown_addresses(ada, charlie, path, host, form):
    """The page that says so asks for the form's CSRF token once more."""
    kind, body = BAD_FORMS[form]
    for client in (signed_in(charlie), Client(enforce_csrf_checks=True, raise_request_exception=False)):
        answer = client.generic("POST", path, body, content_type=kind, headers={"Host": host})
        assert 300 <= answer.status_code < 500, answer.content


def test_content_length_that_is_no_number_is_refused(api, ada, actor_token, subtests):
    """Gunicorn refuses it too; what stands before another server must not decide."""
    for path, length in each_once(["/api/facts", "/login/", "/nothing"], ["x", "-1", "1e3", "１", "9" * 30, "1 2"]):
        with subtests.test(path=path, length=length):
            caller = api.as_token(actor_token)
            raw = length.encode().decode("latin-1")
            answer = caller.client.generic("POST", path, b"{}", headers=caller.headers, CONTENT_LENGTH=raw)
            assert answer.status_code == 400
            if path.startswith("/api/"):
                assert_problem(answer, 400, "bad_request")


@pytest.mark.parametrize(
    ("path", "charset"),
    each_once(
        ["/api/facts?agent=ada&q=%2B2Ez-", "/api/identity?agent=1e%2B300", "/agents/?q=%2B2AA-"],
        ["utf-7", "utf-16", "cp037", "punycode", "rot13", "hex", "nothing"],
    ),
)
def test_content_type_does_not_decide_how_an_address_is_read(ada, charlie, monkeypatch, path, charset):
    """In UTF-7 “+300” is half of a surrogate pair, and by some codecs no text can be read at all."""
    monkeypatch.setattr("django.test.client.WSGIRequest", wsgi_application().request_class)
    client = signed_in(charlie)
    for kind in ("application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a"):
        for method in ("GET", "POST"):
            for said in (f"charset={charset}", f"charset*={charset}''utf-8"):
                answer = client.generic(method, path, b"a=%2BAAA-", content_type=f"{kind}; {said}")
                assert answer.status_code < 500
                if "form" in kind and "*" not in said:
                    assert answer.status_code == 415


def test_query_beyond_what_a_server_passes_on_is_refused(ada, charlie, subtests):
    """Each word of a search costs; as many as a server's first line holds are answered."""
    for path in ["/admin/memory/fact/", "/agents/ada/facts/", "/api/facts", "/api/recall", "/nothing/"]:
        with subtests.test(path=path):
            client = signed_in(charlie)
            longest = "agent=ada&q=" + "+".join("e" for _ in range(4_069))
            assert client.get(f"{path}?{longest}").status_code < 500
            answer = client.get(f"{path}?{longest}+e")
            assert answer.status_code == 414
            if path.startswith("/api/"):
                assert_problem(answer, 414, "too_large")


@pytest.mark.parametrize("path", ["/login/", "/admin/login/"])
@pytest.mark.parametrize("name", ["x" * 151, "x" * 256, "é" * 5_000, "x" * 1_000_000, "a\x00b", "\u202e", " "])
def test_login_with_any_name_is_refused_and_counted(client, charlie, path, name):
    """Django's form bounds no name, and failures are stored in columns that do."""
    headers = {"Accept": "a" * 3_000, "User-Agent": "b" * 3_000}
    answers = [client.post(path, {"username": name, "password": "wrong"}, headers=headers) for _ in range(6)]
    assert {answer.status_code for answer in answers} <= {200, 429}
    if name.startswith(("x", "é")):
        assert answers[-1].status_code == 429


def test_json_is_utf_8_whatever_its_header_names(api, actor_token):
    caller = api.as_token(actor_token)
    body = json.dumps({"content": "Zoë sails."}, ensure_ascii=False).encode()
    kind = "application/json; charset=iso-8859-1"
    answer = caller.client.generic("POST", "/api/facts", body, content_type=kind, headers=caller.headers)
    assert answer.json()["fact"]["content"] == "Zoë sails."


@pytest.mark.parametrize("host", ["evil.example", "[::1", "x\\@y", "testserver:x"])
def test_host_not_served_is_a_problem_under_the_api(api, actor_token, host):
    answer = api.as_token(actor_token).with_headers(Host=host).get("/identity")
    assert_problem(answer, 400, "bad_request")


def filled(value, blank):
    """`value` with `blank` where a text of it says so."""
    if isinstance(value, dict):
        return {name: filled(inner, blank) for name, inner in value.items()}
    return [filled(inner, blank) for inner in value] if isinstance(value, list) else value.replace("%", blank)


def test_memory_without_visible_text_is_refused(api, all_scopes_token, subtests):
    for call, blank in each_once(
        [
            ("/facts", {"content": "%"}, "content"),
            ("/facts", {"content": "Tim sails.", "tags": ["%"]}, "tags"),
            ("/events", {"events": [EVENT | {"content": "%"}]}, "events[0].content"),
            ("/decisions", {"description": "%"}, "description"),
            ("/decisions", {"description": "Sail.", "reasons": ["%"]}, "reasons"),
            ("/procedures", {"name": "%"}, "name"),
            ("/procedures", {"name": "Sailing", "steps": ["%"]}, "steps"),
            ("/censors", {"pattern": "%", "severity": "warn"}, "pattern"),
            ("/censors", {"pattern": "%", "match": "semantic", "severity": "warn"}, "pattern"),
            ("/working/s/items", {"text": "%"}, "text"),
            ("/working/s/threads", {"text": "%"}, "text"),
        ],
        [*UNSEEN.values()][::-1],
    ):
        with subtests.test(call=call, blank=blank):
            path, body, field = call
            before = SearchItem.objects.count()
            refused = api.as_token(all_scopes_token).post(path, filled(body, blank))
            assert_problem(refused, 422, "invalid", field=field)
            assert SearchItem.objects.count() == before


@unseen
def test_replacement_without_visible_text_is_refused(api, all_scopes_token, blank):
    caller = api.as_token(all_scopes_token)
    fact = caller.post("/facts", {"content": "Tim sails."}).json()["fact"]["id"]
    refused = caller.post(f"/facts/{fact}/supersede", {"by": {"content": blank}})
    assert_problem(refused, 422, "invalid", field="content" if blank.strip() else "by.content")
    assert Fact.objects.get().active


@unseen
def test_console_refuses_text_that_nobody_can_see(ada, charlie, blank):
    client = signed_in(charlie)
    token = client.cookies["csrftoken"].value
    form = {
        "content": blank, "category": "concept", "scope": "global", "confidence": "1", "importance": "0.5",
        "csrfmiddlewaretoken": token,
    }  # fmt: skip
    answer = client.post("/agents/ada/facts/add/", form)
    assert answer.status_code in (200, 422)
    page = answer.content.decode()
    assert "“Fact” must not be empty" in page or "This field is required" in page
    assert not Fact.objects.exists()


def test_text_with_visible_parts_is_kept(api, actor_token):
    """Joiners and selectors belong to emoji and to scripts; only text of nothing else is refused."""
    for said in ("👩‍💻", "❤️", "می‌خواهم", "שלום", "⠓⠊", "한글"):
        assert api.as_token(actor_token).post("/facts", {"content": said}).json()["fact"]["content"] == said


PAGES = ("/", "/agents/", "/agents/ada/facts/", "/agents/ada/identity/", "/inbox/", "/audit/", "/nothing/", "/admin/")
CALLS = ("/api/identity", "/api/facts", "/api/events", "/api/facts/nothing", "/api/nothing", "/api/openapi.json")


def test_answers_with_data_may_not_be_cached(ada, charlie, client, subtests):
    for path in [*PAGES, *CALLS, "/login/", "/healthz", "/metrics"]:
        with subtests.test(path=path):
            administrator = signed_in(charlie)
            for caller in (administrator, client):
                assert caller.get(path, {"agent": "ada"})["Cache-Control"].find("no-") >= 0, path
            assert "no-store" in administrator.get(path, {"agent": "ada"})["Cache-Control"]


def test_static_files_may_be_cached(client):
    kept = client.get("/static/favicon.svg")
    assert kept.status_code == 200
    assert "max-age" in kept["Cache-Control"]


@pytest.mark.parametrize("change", ["supersede", "invalidate", "merge"])
def test_fact_recorded_by_a_fast_clock_can_be_retired(api, ada, actor_token, bob, change):
    """What another machine's clock stamped later than now must not be true for ever."""
    caller = api.as_token(actor_token)
    first = caller.post("/facts", {"content": "Tim lives in Rome.", "subject": "Tim"}).json()["fact"]["id"]
    ahead = timezone.now() + timedelta(days=400)
    Fact.objects.filter(pk=first).update(recorded_at=ahead)
    if change == "supersede":
        answer = caller.post(f"/facts/{first}/supersede", {"by": {"content": "Tim lives in Oslo."}})
    elif change == "invalidate":
        answer = api.as_person(bob).post(f"/facts/{first}/invalidate", {}, query={"agent": "ada"})
    else:
        by = Principal.of_user(bob)
        other = fact_learn(agent=ada, content="Rome is where he is.", by=by).fact
        fact_merge(duplicate=Fact.objects.get(pk=first), into=other, by=by)
        answer = caller.get(f"/facts/{first}")
    assert answer.status_code == 200, answer.content
    fact = Fact.objects.get(pk=first)
    assert not fact.active
    assert fact.retired_at >= fact.recorded_at, "nothing is forgotten before it was known"
    for days in (0, 399, 401):
        held = Fact.objects.as_of(timezone.now() + timedelta(days=days))
        assert fact not in held
    if change == "supersede":
        successor = fact.superseded_by
        assert successor.valid_from <= timezone.now()
        assert list(Fact.objects.as_of(timezone.now())) == [successor]


def test_future_fact_can_be_replaced_before_its_time(api, actor_token):
    caller = api.as_token(actor_token)
    later = (timezone.now() + timedelta(days=30)).isoformat()
    plan = {"content": "The office is in Bern.", "subject": "office", "valid_from": later}
    old = caller.post("/facts", plan).json()["fact"]["id"]
    by = {"content": "The office is in Basel.", "valid_from": later}
    answer = caller.post(f"/facts/{old}/supersede", {"by": by})
    assert answer.status_code == 200, answer.content
    there = timezone.now() + timedelta(days=31)
    assert [fact.content for fact in Fact.objects.valid_at(there)] == ["The office is in Basel."]
    assert [fact.content for fact in Fact.objects.as_of(there)] == ["The office is in Basel."]
    assert not Fact.objects.as_of(timezone.now()).exists()


def test_future_fact_is_not_superseded_automatically_by_a_current_one(api, actor_token):
    caller = api.as_token(actor_token)
    later = (timezone.now() + timedelta(days=30)).isoformat()
    caller.post("/facts", {"content": "The rate is 5%.", "subject": "rate", "valid_from": later})
    learned = caller.post("/facts", {"content": "The rate is 4%.", "subject": "rate"}).json()
    assert learned["superseded"] == []
    assert Fact.objects.active().count() == 2


def test_entries_of_a_mapping_are_of_their_type_too(api, ada, charlie, actor_token, subtests):
    """True was read as one token: an identity of which nobody is told anything."""
    for value in ["5", True, 1.5, None, [5]]:
        with subtests.test(value=value):
            before = AuditEvent.objects.count()
            answer = api.as_person(charlie).put("/settings", {"budgets": {"identity": value}}, query={"agent": "ada"})
            assert_problem(answer, 422, "invalid")
            assert answer.json()["errors"][0]["field"].startswith("budgets")
            asked = {"session_id": "s", "input": "Hello", "budgets": {"identity": value}}
            assert_problem(api.as_token(actor_token).post("/context", asked), 422, "invalid")
            assert AuditEvent.objects.count() == before


def test_year_beyond_every_calendar_is_refused_by_the_stock_admin(admin_client):
    for path, field in (("contextrun", "created_at"), ("auditevent", "at")):
        app = "context" if path == "contextrun" else "identity"
        assert admin_client.get(f"/admin/{app}/{path}/", {f"{field}__year": "1" + "0" * 200}).status_code < 500


def test_host_that_is_not_served_is_refused_without_a_traceback_in_the_log(client, caplog):
    assert client.get("/", HTTP_HOST="xn--").status_code == 400
    assert not [record for record in caplog.records if record.exc_info]
