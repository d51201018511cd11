"""Numbers, identifiers, paths and addresses: the memory that has exactly this one comes first, over HTTP."""

import re

import pytest
from django.db import connection
from django.utils import timezone

from identity.principal import Principal
from identity.services.agents import agent_create
from memory.persona import ActorMemory
from memory.search.codes import MAX_CODES, codes_of
from memory.search.query_word_counts import counts_read
from memory.services.search_index.row_embedding import embed_pending_rows
from tests.factories import make_events, make_facts, make_principal, make_token
from tests.http import ApiClient, browser

pytestmark = pytest.mark.django_db

STATES = ("shipped to Hamburg", "is paid", "waits for a signature", "was returned broken", "is on the truck")
ORDERS = {f"BENCH-{100801 + n}": f"The order BENCH-{100801 + n} {STATES[n % 5]}." for n in range(30)}
ADDRESS = "Salaries leave GB29 NWBK 6016 1331 9268 19 monthly."
PHONE = "Ms Brandt can be reached at 030/123 45 67."
PLUMBER = "Call the plumber at +1 555 010 4477 at noon."
LOG = "The stack traces are in /var/log/nginx/error.log on the proxy."
REFUND = "Refunds go to DE89370400440532013000 by Monday."
CRASH = "The crash is at src/app/main.py:42 in the loop."
SEARCHED = {
    "bench 100821": ORDERS["BENCH-100821"],
    "BENCH100821": ORDERS["BENCH-100821"],
    "100821": ORDERS["BENCH-100821"],
    "what is the status of BENCH-100811?": ORDERS["BENCH-100811"],
    "ticket 124": "Ticket 124: the login page is blank after an update.",
    "#142": "Ticket 142: the report has no header.",
    "0017": "Locker 0017 belongs to the night shift.",
    "error.log": LOG,
    "nginx": LOG,
    "setup": "Run ./tools/setup.sh before the first build.",
    "example.org": "The status page is https://status.example.org/today?x=1 for everybody.",
    "ana@example.com": "Invoices go to ana@example.com only.",
    "1.2.3": "The parser is pinned to v1.2.3 because of a crash.",
    "v1.2.3-rc1": "Customers in Oslo test v1.2.3-rc1 since Monday.",
    "+49 30 1234567": PHONE,
    "0301234567": PHONE,
    "(555) 010-4477": PLUMBER,
    "5550104477": PLUMBER,
    "DE89 3704 0044 0532 0130 00": REFUND,
    "GB29NWBK60161331926819": ADDRESS,
    "2024-05-17": "Standup notes of 2024-05-17: the cache was cleared.",
    "10.0.0.12": "The printer has the address 10.0.0.12 in the office.",
    "2001:db8::ff00:42:8329": "The tunnel ends at 2001:db8::ff00:42:8329 in Oslo.",
    "00:1B:44:11:3A:B7": "The badge reader has the MAC 00:1b:44:11:3a:b7 at the door.",
    "550e8400-e29b-41d4-a716-446655440000": "Request 550e8400-e29b-41d4-a716-446655440000 timed out.",
    "9f86d081884c7d65": "The artifact has the digest 9f86d081884c7d65 in full.",
    r"C:\Users\ada\notes.txt": r"The draft is in C:\Users\ada\notes.txt on the laptop.",
    "src/app/main.py:42": CRASH,
    "main.py": CRASH,
    "user_id": "The column user_id is null for guests.",
    "getUserById": "getUserById returns null for guests.",
    "get_user_by_name": "getUserByName returns the first match.",
    "HTTPServer2": "HTTPServer2 keeps connections open.",
    "ora 00600": "ORA-00600 came up in the nightly job.",
    "E1042": "The scanner stops with E1042 if the lid is open.",
    "1043": "The scanner stops with E1043 if the paper is wet.",
    "INV/2024/001": "INV/2024/001 is for the desks.",
    "@mkowalski": "Ask @mkowalski about the badges.",
    "C++": "The codec is written in C++ by the audio team.",
    ".env": "Secrets live in .env beside the compose file.",
    "k8s": "We run k8s on three nodes.",
}
OTHERS = (
    "Ticket 125: the login page is slow.",
    "Locker 0018 belongs to the day shift.",
    "Mr Kraus can be reached at 030/123 45 68.",
    "Rent goes to DE89370400440532013001 by Friday.",
    "Customers in Rome test v1.2.4 since Tuesday.",
    "Standup notes of 2024-05-18: the cache was filled.",
    "The scanner has the address 10.0.0.21 in the office.",
    "The tunnel starts at 2001:db8::ff00:42:8330 in Bergen.",
    "Request 550e8400-e29b-41d4-a716-446655440001 was served.",
    "The leak is at src/app/loop.py:57 in the loop.",
    "The column order_id is never null.",
    "HTTPServer3 closes connections.",
    "ORA-00601 came up in the weekly job.",
    "INV/2024/002 is for the chairs.",
    "The driver is written in C by the audio team.",
    "We run k3s on the edge device.",
)
UNKNOWN = {
    "BENCH-100899": "BENCH-",
    "bench 100899": "BENCH-",
    "ticket 900": "Ticket ",
    "10.0.0.99": "10.0.0.",
    "E1099": "E104",
    "2024-07-30": "2024-05",
    "INV/2024/777": "INV/",
    "+49 30 7654321": "030/",
}
"""Codes that no memory has, and what memories with another number begin with."""
TEXTS = tuple(dict.fromkeys([*ORDERS.values(), *SEARCHED.values(), *OTHERS]))


@pytest.fixture(scope="module")
def token(module_db):
    agent = agent_create(slug="codes", name="Codes", prompt="You keep codes.", by=Principal.of_system("tests"))
    actor = make_principal(agent)
    make_facts(agent, TEXTS[::2], actor)
    make_events(agent, actor, *TEXTS[1::2])
    embed_pending_rows()
    return make_token(agent)


def recalled(token, query, **more):
    answer = ApiClient().as_token(token).get("/recall", {"q": query, **more})
    assert answer.status_code == 200, answer.content
    return [(item["content"], item["score"]) for item in answer.json()["items"]]


def prompt(token, query):
    answer = ApiClient().as_token(token).post("/context", {"session_id": f"s-{query}"[:60], "input": query})
    assert answer.status_code == 200, answer.content
    return answer.json()["system_prompt"]


@pytest.mark.parametrize(("query", "said"), SEARCHED.items())
def test_memory_with_exactly_this_code_is_first_and_in_the_prompt(token, query, said):
    (first, score), *_ = recalled(token, query)
    assert first == said
    assert score >= 0.4
    assert said in prompt(token, query)


def test_of_thirty_orders_exactly_the_one_that_is_asked_for_is_shown(token):
    for code, said in ORDERS.items():
        assert [text for text, _ in recalled(token, code)] == [said]
        shown = prompt(token, code)
        assert [text for text in TEXTS if text in shown] == [said]


@pytest.mark.parametrize("query", ["2024-05-17", "10.0.0.12", "E1042", "0017", "HTTPServer2", "1043", "INV/2024/001"])
def test_memories_with_another_number_are_not_shown(token, query):
    assert len(recalled(token, query)) == 1


def test_order_that_is_asked_for_by_a_word_and_a_number_is_the_only_one(token):
    found = [text for text, _ in recalled(token, "bench 100821")]
    assert [text for text in found if text in ORDERS.values()] == [ORDERS["BENCH-100821"]]


@pytest.mark.parametrize(("query", "form"), UNKNOWN.items())
def test_code_that_no_memory_has_finds_no_other_number(token, query, form):
    assert [text for text, _ in recalled(token, query) if form in text] == []
    shown = prompt(token, query)
    assert [text for text in TEXTS if form in text and text in shown] == []


def test_question_about_an_unknown_order_does_not_bring_other_orders(token):
    found = recalled(token, "Did the order BENCH-100899 ship to Hamburg?", min_score=0, limit=100)
    assert {text for text, _ in found} >= set(ORDERS.values())
    assert all(score < 0.25 for text, score in found if text in ORDERS.values())


def test_every_type_of_memory_is_found_by_its_code(api, charlie, bruno):
    token = make_token(bruno)
    client = api.as_token(token)
    made = {
        "RACK-7041": client.post("/facts", {"content": "RACK-7041 has a broken fan."}),
        "RACK-7042": client.post("/events", {"events": [{"kind": "user_input", "content": "RACK-7042 is full."}]}),
        "RACK-7043": client.post("/decisions", {"description": "Move RACK-7043 to the cellar."}),
        "RACK-7044": client.post("/procedures", {"name": "Open RACK-7044", "steps": ["Turn the key twice."]}),
        "RACK-7045": client.post("/episodes", {"title": "RACK-7045 fell over", "detail": "RACK-7045 fell over."}),
        "RACK-7046": client.put("/documents", {"namespace": ["racks"], "key": "a", "value": {"t": "RACK-7046 hums."}}),
    }
    assert {answer.status_code for answer in made.values()} <= {200, 201}
    embed_pending_rows()
    for code in made:
        [(first, _), *others] = recalled(token, code)
        assert code in first
        assert others == []
        shown = prompt(token, code).replace(f"Current task: {code}", "")
        assert [each for each in made if each in shown] == [code]
        page = browser(charlie).get("/search/", {"q": code, "agent": "bruno"}).content.decode()
        page = re.sub("</?mark>", "", page)
        assert [each for each in made if each in page] == [code]
        assert first.splitlines()[0].removeprefix(code) in page


def test_text_as_of_a_moment_is_searched_for_its_code_of_then(api, actor_token, ada, actor):
    client = api.as_token(actor_token)
    made = client.post("/procedures", {"name": "Open the gate", "description": "Type KX-5501 twice."}).json()
    moment = timezone.now().isoformat()
    changed = client.request("PATCH", f"/procedures/{made['id']}", body={"description": "Type KX-5502 once."})
    assert changed.status_code == 200, changed.content
    embed_pending_rows()
    assert recalled(actor_token, "KX-5501") == []
    assert len(recalled(actor_token, "KX-5502")) == 1
    assert len(recalled(actor_token, "KX-5501", as_of=moment)) == 1
    assert recalled(actor_token, "KX-5502", as_of=moment) == []


@pytest.mark.parametrize(
    ("query", "codes", "alone"),
    [
        ("When in May 2023 did she buy 3 cats at 10:30 for $1,200?", [], False),
        ("Who ran the 5K on 8th December, 24/7, with 65%?", [], False),
        ("e.g. J.K. Rowling of the U.S., and/or YouTube", [], False),
        ("2023", ["2023"], True),
        ("call 030/123 45 67 at 10:30", ["030/123 45 67"], False),
        ("src/app/main.py:42 and getUserById.", ["src/app/main.py:42", "getUserById"], False),
        ("(E1042)", ["E1042"], True),
        ("x" * 20_000, [], False),
        ("-" * 10_000 + "a1 " * 3_000, ["a1"] * MAX_CODES, False),
    ],
)
def test_codes_of_a_query(query, codes, alone):
    found, only = codes_of(query)
    assert [code.spellings[0] for code in found] == codes
    assert only == alone


@pytest.mark.parametrize(
    ("query", "counted"),
    [
        ("Where is PostgreSQL running?", {"postgresql": 2, "run": 0}),
        ("What is the SQL dialect of PostgreSQL?", {"sql": 3, "dialect": 0, "postgresql": 2}),
        ("getUserById", {"getuserbyid": 0}),
        ("ORDER1042", {"order1042": 0}),
        ("GatewayTimeout", {"gatewaytimeout": 1}),
    ],
)
def test_word_of_several_parts_counts_once_in_a_query(ada, actor, query, counted):
    texts = ("PostgreSQL has the ledger.", "PostgreSQL has the log.", "We write SQL.", "The gateway hit its timeout.")
    make_facts(ada, texts, actor)
    assert counts_read(ActorMemory(ada), query).df == counted


@pytest.mark.parametrize("query", ["[a]{9999}_x", "\\", "a\\1_(", "é_ü.ß", "*.py", "a_" * 99, "((((1.2.3", "%s_%(q)s"])
def test_odd_codes_are_harmless(token, query):
    recalled(token, query)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("BENCH-100821", {"bench", "100821"}),
        ("/var/log/nginx/error.log", {"var", "log", "nginx", "error"}),
        ("https://www.example.org/a-b?x=1", {"exampl", "org", "b", "a-b", "x", "1"}),
        ("getUserById", {"getuserbyid", "get", "user", "id"}),
        ("JavaScript", {"javascript"}),
        ("ORDER1042", {"order1042", "order", "1042"}),
        ("v1.2.3-rc1", {"1.2.3", "rc1"}),
        ("-5 degrees", {"5", "degre"}),
        ("Vec<Item> & C++, C#", {"vec", "item", "c", "plusplus", "sharp"}),
        ("+49 30 1234567", {"49", "30", "1234567", "49301234567", "tail301234567"}),
        ("e.g. the U.S.", {"e.g", "u.s"}),
    ],
)
def test_words_of_a_text(text, found):
    with connection.cursor() as cursor:
        cursor.execute("SELECT tsvector_to_array(nous_terms('english', %s))", [text])
        assert set(cursor.fetchone()[0]) == found
