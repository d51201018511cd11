"""An agent that tries to switch people's censors off: with costly patterns, with many, without an embedder."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from identity.models import AuditEvent
from memory.models import Censor
from memory.policy import MAX_ACTIVE_CENSORS, MAX_ACTIVE_TOKEN_CENSORS
from memory.services.censors import censor_create
from nousweb.lib.errors import Conflict
from nousweb.lib.readable_text import readable_text
from tests.api.problems import assert_problem
from tests.http import markup, signed_in

COSTLY = "(a|b)*a(a|b){{500}}z{}"
"""About 0.8 seconds for each with the longest text of a's."""
COSTLY_TEXT = "a" * 99_000 + " and here is the secret"
MEANING = {"pattern": "The user asks to delete production data", "match": "semantic", "severity": "block"}


@pytest.fixture
def no_embedder(monkeypatch):
    monkeypatch.setattr("memory.embedding.local.MODEL_SHA256", "0" * 64)
    monkeypatch.setattr("memory.embedding.registry._made", {})


def made_before(agent, count, kind, pattern=COSTLY, severity="block"):
    """Censors that no check of today has looked at, as an older release or an import leaves them."""
    return Censor.objects.bulk_create(
        Censor(
            agent=agent,
            pattern=pattern.format(place),
            severity=severity,
            author_kind=kind,
            author_id="1",
            author_name=f"some {kind}",
        )
        for place in range(count)
    )


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (COSTLY.format(1), "too slow"),
        ("(?:a?){500}a{500}z", "too slow"),
        ("(?:[ab]*a[ab]{300}){1,3}q", "too slow"),
        ("((.{1,30}){1,30})q{5}", "instructions"),
        ("(x.{0,1000}y|a.{0,990}z)", "instructions"),
        ("|".join(f"word{place}" for place in range(80)), "at most 500 characters"),
    ],
)
def test_costly_pattern_is_refused_from_a_token_and_taken_from_a_person(api, ada, actor_token, bob, pattern, says):
    refused = api.as_token(actor_token).post("/censors", {"pattern": pattern})
    assert_problem(refused, 422, "invalid", field="pattern", detail=says)
    assert not Censor.objects.exists()
    assert api.as_person(bob).post("/censors", {"pattern": pattern}, {"agent": "ada"}).status_code == 201


def test_agent_patterns_use_up_no_time_of_peoples(api, ada, actor_token, bob):
    made_before(ada, 20, "token", severity="absolute")
    mine = api.as_person(bob).post("/censors", {"pattern": "secret", "severity": "block"}, {"agent": "ada"}).json()
    answer = api.as_token(actor_token).post("/censors/check", {"text": COSTLY_TEXT, "dry": True}).json()
    assert answer["verdict"] == "block"
    assert [found["id"] for found in answer["matches"]] == [mine["id"]]
    assert answer["timed_out"], "the agent's own are not all reached"
    assert {missed["blocks"] for missed in answer["timed_out"]} == {False}
    assert answer["reason"] == ""


def test_agent_censor_that_times_out_blocks_nobody_else(api, ada, actor_token):
    made_before(ada, 20, "token")
    answer = api.as_token(actor_token).post("/censors/check", {"text": COSTLY_TEXT, "dry": True}).json()
    assert answer["verdict"] == "allow"
    assert answer["timed_out"]


@pytest.mark.parametrize("severity", ["warn", "block"])
def test_person_censor_that_is_not_reached_blocks_and_is_named(api, ada, actor_token, monkeypatch, severity):
    monkeypatch.setattr("memory.censoring.censor_matching.BINDING_CENSOR_CHECK_SECONDS", 0.5)
    made_before(ada, 3, "person", severity=severity)
    answer = api.as_token(actor_token).post("/censors/check", {"text": COSTLY_TEXT}).json()
    assert answer["verdict"] == "block"
    assert answer["matches"] == []
    missed = {one["id"] for one in answer["timed_out"] if one["blocks"]}
    assert missed <= {str(censor.pk) for censor in Censor.objects.all()}
    assert missed
    assert all(key in answer["reason"] for key in missed)
    assert "could not be checked" in answer["reason"]


def test_person_meaning_blocks_without_an_embedder_and_an_agents_does_not(
    api, ada, actor_token, bob, no_embedder, settings
):
    agents = api.as_token(actor_token).post("/censors", MEANING).json()
    before = api.as_token(actor_token).post("/censors/check", {"text": "Good morning."}).json()
    assert (before["verdict"], [one["id"] for one in before["timed_out"]]) == ("allow", [agents["id"]])
    persons = api.as_person(bob).post("/censors", MEANING, {"agent": "ada"}).json()
    answer = api.as_token(actor_token).post("/censors/check", {"text": "Good morning."}).json()
    assert answer["verdict"] == "block"
    assert [(one["id"], one["blocks"]) for one in answer["timed_out"]] == [(persons["id"], True), (agents["id"], False)]
    assert persons["id"] in answer["reason"]
    assert agents["id"] not in answer["reason"]


def test_censor_changed_by_a_person_is_the_persons(api, ada, actor_token, bob, no_embedder):
    agents = api.as_token(actor_token).post("/censors", MEANING).json()
    # What changes nothing leaves no record, and so makes it nobody's.
    for body in ({"severity": "block"}, {"severity": "block", "reason": "It matters."}):
        records = AuditEvent.objects.filter(object_id=agents["id"], action="censor.update").count()
        assert (Censor.objects.get().endorsed, records) == (False, 0)
        changed = api.as_person(bob).request("PATCH", f"/censors/{agents['id']}", body=body, query={"agent": "ada"})
        assert changed.status_code == 200
    answer = api.as_token(actor_token).post("/censors/check", {"text": "Good morning."}).json()
    assert (answer["verdict"], answer["timed_out"][0]["blocks"]) == ("block", True)


def test_censor_limit_of_people_is_separate(api, ada, actor_token, subconscious_token, bob):
    caller = api.as_token(actor_token)
    for place in range(MAX_ACTIVE_TOKEN_CENSORS - 1):
        made_before(ada, 1, "token", f"word{place}")
    assert caller.post("/censors", {"pattern": "the last"}).status_code == 201
    assert_problem(caller.post("/censors", {"pattern": "one more"}), 409, "conflict", detail="100")
    person = api.as_person(bob)
    assert person.post("/censors", {"pattern": "secret"}, {"agent": "ada"}).status_code == 201
    made_before(ada, MAX_ACTIVE_CENSORS - 2, "person", "word{}")
    assert person.post("/censors", {"pattern": "the last"}, {"agent": "ada"}).status_code == 201
    assert_problem(person.post("/censors", {"pattern": "one more"}, {"agent": "ada"}), 409, "conflict", detail="500")
    assert api.as_token(subconscious_token).post("/censors", {"pattern": "its own"}).status_code == 201


def test_censor_limit_is_not_bypassed_by_restoring(api, ada, actor_token, bob):
    made_before(ada, MAX_ACTIVE_CENSORS, "person", "word{}")
    retired = Censor.objects.create(
        agent=ada, pattern="old", active=False, author_kind="person", author_id="1", author_name="x"
    )
    back = api.as_person(bob).request("PATCH", f"/censors/{retired.pk}", body={"active": True}, query={"agent": "ada"})
    assert_problem(back, 409, "conflict")


def test_censors_of_people_come_first_in_the_prompt(api, ada, actor_token, bob):
    made_before(ada, MAX_ACTIVE_TOKEN_CENSORS, "token", "no {} " + "x" * 60)
    mine = [f"people's own {place}" for place in range(5)]
    for pattern in mine:
        assert api.as_person(bob).post("/censors", {"pattern": pattern}, {"agent": "ada"}).status_code == 201
    prompt = api.as_token(actor_token).post("/context", {"session_id": "s-1", "input": "hello"}).json()["system_prompt"]
    assert [pattern for pattern in mine if pattern not in prompt] == []


def test_censor_bench_names_what_holds_the_text_back(ada, bob, no_embedder):
    made_before(ada, 1, "person")
    Censor.objects.update(match="semantic")
    page = signed_in(bob).get("/agents/ada/censors/bench/", {"text": "Good morning."})
    assert page.status_code == 200
    text = markup(page)
    assert "Would block." in text
    assert "A person made this censor, so the text is blocked." in text


@pytest.mark.django_db(transaction=True)
def test_censor_limit_holds_for_two_at_once(ada, actor):
    made_before(ada, MAX_ACTIVE_TOKEN_CENSORS - 1, "token", "word{}")
    ready = threading.Barrier(2)

    def make(pattern):
        try:
            ready.wait(30)
            censor_create(agent=ada, pattern=pattern, by=actor)
            return "made"
        except Conflict:
            return "refused"
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(make, ["one", "other"])) == ["made", "refused"]
    assert Censor.objects.count() == MAX_ACTIVE_TOKEN_CENSORS


HIDDEN = [
    ("the pass\u200bword is x", "pass\u200bword"),
    ("p\u00adassword", "p\u00adassword"),
    ("the \u200bpassword\u200b", "password"),
    ("my ｐａｓｓｗｏｒｄ!", "ｐａｓｓｗｏｒｄ"),
    ("a ｐ\u2060ａss\u200d\u200cword.", "ｐ\u2060ａss\u200d\u200cword"),
    ("p\U000e0061ass\ufe0fword", "p\U000e0061ass\ufe0fword"),
    ("ﬁne, 𝐩𝐚𝐬𝐬𝐰𝐨𝐫𝐝", "𝐩𝐚𝐬𝐬𝐰𝐨𝐫𝐝"),
    ("the p\u0430ssw\u043erd is x", "p\u0430ssw\u043erd"),
    ("\u1112\u1161\u11ab pass\u200bword", "\u1112\u1161\u11ab pass\u200bword"),
]


@pytest.mark.parametrize(("text", "place"), HIDDEN)
def test_censor_matches_across_hidden_characters(api, ada, actor_token, bob, text, place):
    body = {"pattern": "password", "severity": "absolute"}
    assert api.as_person(bob).post("/censors", body, {"agent": "ada"}).status_code == 201
    answer = api.as_token(actor_token).post("/censors/check", {"text": text}).json()
    assert answer["verdict"] == "block"
    [match] = answer["matches"]
    assert [text[span["start"] : span["end"]] for span in match["spans"]] == [place]


@pytest.mark.parametrize("flood", ["e" + "\u0301\u0316" * 49_000, "\ufdfa" * 98_000, "क\u200d\u200b" * 32_000])
def test_censor_reads_a_flood_of_marks_at_once(flood):
    read = readable_text(f"{flood} pass\u200bword")
    assert read is not None
    assert len(read.text) < 100_000
    assert read.text.endswith(" password")
    assert read.original_span(len(read.text) - 8, len(read.text)) == (len(flood) + 1, len(flood) + 10)


@pytest.mark.parametrize(
    "text", ["Grüße an 東京 und नमस्ते.", "می\u200cخواهم", "👩\u200d👩\u200d👧 ❤️", "e\u0301t\u00e9 ½ ﬁ"]
)
def test_censor_allows_text_that_reads_differently(api, ada, actor_token, bob, text):
    assert api.as_person(bob).post("/censors", {"pattern": "password"}, {"agent": "ada"}).status_code == 201
    answer = api.as_token(actor_token).post("/censors/check", {"text": text}).json()
    assert (answer["verdict"], answer["matches"], answer["timed_out"]) == ("allow", [], [])


def test_censor_meaning_is_that_of_the_visible_text(api, ada, actor_token, bob):
    assert api.as_person(bob).post("/censors", MEANING, {"agent": "ada"}).status_code == 201
    plain = "The user asks to delete production data."
    for text in (plain, "\u200b".join(plain)):
        answer = api.as_token(actor_token).post("/censors/check", {"text": text}).json()
        assert answer["verdict"] == "block"
        assert answer["matches"][0]["spans"] == [{"start": 0, "end": len(text)}]
