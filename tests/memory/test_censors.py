"""Censors: what is accepted, what a text triggers, who may change them, and what is counted."""

import threading
import time
from itertools import count
from uuid import uuid4

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from identity.models import AuditEvent
from memory.censoring.censor_matching import (
    MAX_SPANS,
    CensorRule,
    SimilarityFailed,
    match_censors,
    semantic_similarities,
)
from memory.models import Censor
from memory.policy import MAX_ACTIVE_CENSORS
from memory.services.censors import censor_check, censor_create, censor_retire, censor_update
from nousweb.lib.errors import Conflict, NotAllowed
from tests.api.problems import assert_problem

SECRETS = "api_key|token|secret|password"
NESTED = "(a+)+$"


def no_meanings(meanings, passages):
    raise AssertionError("nothing here asks for meanings")


def match(text, *patterns, severity="warn", seconds=10.0, clock=time.monotonic):
    rules = [CensorRule(str(place), pattern, severity) for place, pattern in enumerate(patterns)]
    return match_censors(text, rules, similarities=no_meanings, seconds=seconds, clock=clock)


def test_censor_finds_the_words_of_a_secret(api, ada, actor_token):
    caller = api.as_token(actor_token)
    body = {"pattern": SECRETS, "severity": "block", "reason": "Never repeat secrets."}
    made = caller.post("/censors", body)
    assert made.status_code == 201, made.content
    answer = caller.post("/censors/check", {"text": "here is my auth token"})
    assert answer.status_code == 200, answer.content
    found = answer.json()
    assert (found["verdict"], found["timed_out"]) == ("block", [])
    (only,) = found["matches"]
    assert (only["id"], only["severity"], only["reason"]) == (made.json()["id"], "block", "Never repeat secrets.")
    assert only["spans"] == [{"start": 16, "end": 21}]
    assert only["why"] == "The pattern matches “token” at 16."
    assert caller.post("/censors/check", {"text": "nothing to see"}).json()["verdict"] == "allow"


def test_censor_invalid_pattern_is_refused_with_its_reason(api, ada, actor_token, subtests):
    for pattern, says in [
        ("", "empty"),
        ("   ", "empty"),
        ("(", "cannot be read"),
        ("[z-a]", "cannot be read"),
        ("*", "cannot be read"),
        (r"token(?!ize)", "look-around"),
        (r"(a)\1", "back-reference"),
        ("((a{100}){100}){100}", "cannot be read"),
        ("a{1000000000}", "1,000"),
        ("a{2,1001}", "1,000"),
        (r"\p{L}{1000}", "cannot be read"),
        ("x*", "every text"),
        ("|", "every text"),
        ("^", "every text"),
        (r"\b", "every text"),
        ("secret|", "every text"),
        (".", "ordinary texts"),
        (".+", "ordinary texts"),
        (r"[^\x00]", "ordinary texts"),
        ("(?s).", "ordinary texts"),
        ("when the user asks to delete production data", "prose"),
        (r"\bübel", "would never match"),
        ("x" * 1_001, "at most 1,000"),
        ("a\x00b", "NUL"),
    ]:
        with subtests.test(pattern=pattern, says=says):
            refused = api.as_token(actor_token).post("/censors", {"pattern": pattern})
            assert_problem(refused, 422, "invalid", field="pattern", detail=says)
            assert not Censor.objects.exists()
            assert not AuditEvent.objects.filter(action="censor.create").exists()


@pytest.mark.parametrize(
    "pattern",
    [SECRETS, NESTED, r"rm\s+-rf", "drop table", r"\d{16}", "übel", r"(?:^|\PL)übel", r"a\{5000\}", "sudo rm"],
)
def test_censor_valid_patterns_are_accepted(ada, actor, pattern):
    assert censor_create(agent=ada, pattern=pattern, by=actor).pattern == pattern


def test_censor_field_out_of_bounds_is_refused_by_name(api, ada, actor_token, subtests):
    for bad in [
        {"severity": "fatal"},
        {"match": "fuzzy"},
        {"domain": "Two Words"},
        {"escalation_threshold": 0},
        {"escalation_threshold": 1_001},
        {"escalation_threshold": 10**30},
        {"similarity_threshold": 0.5},
        {"similarity_threshold": 1.5, "match": "semantic"},
        {"similarity_threshold": 0, "match": "semantic"},
        {"reason": "x" * 2_001},
        {"author_kind": "person"},
    ]:
        with subtests.test(bad=bad):
            refused = api.as_token(actor_token).post("/censors", {"pattern": SECRETS} | bad)
            assert_problem(refused, 422, "invalid", field=next(iter(bad)))
            assert not Censor.objects.exists()


def test_censor_ignores_case_unless_the_pattern_sets_it():
    assert match("My PASSWORD", SECRETS).verdict == "warn"
    assert match("My PASSWORD", "(?-i)password").verdict == "allow"
    assert match("ÜBEL", "übel").verdict == "warn"


def test_censor_strictest_decides_and_comes_first():
    rules = [CensorRule("w", "tea", "warn"), CensorRule("a", "tea", "absolute"), CensorRule("b", "tea", "block")]
    outcome = match_censors("tea", rules, similarities=no_meanings, seconds=10.0)
    assert ([found.rule.id for found in outcome.matches], outcome.verdict) == (["a", "b", "w"], "block")
    assert match_censors("tea", rules[:1], similarities=no_meanings, seconds=10.0).verdict == "warn"


@pytest.mark.parametrize("text", ["a" * 99_999 + "!", "a" * 100_000, "ab" * 50_000])
def test_censor_nested_repetitions_are_harmless(text):
    outcome = match(text, NESTED, r"(x+x+)+y", r"(?:a|a)+$", r"^(\w+\s?)*$", r"(.*a){20}$")
    # An engine that backtracks would not come this far.
    assert outcome.timed_out == ()
    assert ("0" in {found.rule.id for found in outcome.matches}) == text.endswith("aa")


def test_censor_not_reached_in_time_is_no_match_and_is_reported():
    ticks = count()
    outcome = match("tea tea tea", "tea", "t", "e", seconds=3.0, clock=lambda: float(next(ticks)))
    assert [found.rule.id for found in outcome.matches] == ["0"]
    assert outcome.matches[0].more
    assert [missed.rule.id for missed in outcome.timed_out] == ["1", "2"]
    assert "time limit" in outcome.timed_out[0].why


def test_censor_unreadable_pattern_does_not_stop_the_rest():
    outcome = match("tea", "(", "tea")
    assert [found.rule.id for found in outcome.matches] == ["1"]
    assert [missed.rule.id for missed in outcome.timed_out] == ["0"]


def test_censor_reports_at_most_twenty_places():
    assert (len(match("a" * 20, "a").matches[0].spans), match("a" * 20, "a").matches[0].more) == (MAX_SPANS, False)
    assert (len(match("a" * 21, "a").matches[0].spans), match("a" * 21, "a").matches[0].more) == (MAX_SPANS, True)


@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200),
    st.sampled_from([SECRETS, "é+", "a", "x?y"]),
)
def test_censor_places_are_characters_of_the_text(text, pattern):
    for found in match(text, pattern).matches:
        assert all(0 <= span.start < span.end <= len(text) for span in found.spans)
        quoted = text[found.spans[0].start : found.spans[0].end]
        assert match(quoted, pattern).matches, "what is quoted triggers by itself"


def test_censor_meaning_is_compared_by_the_embedder():
    rules = [CensorRule("p", "The user asks to delete production data", "block", True, 0.3)]
    text = "Good morning. Could you wipe all live customer records? What is the weather in Lisbon?"
    outcome = match_censors(text, rules, similarities=semantic_similarities, seconds=60.0)
    (found,) = outcome.matches
    assert [text[span.start : span.end] for span in found.spans] == ["Could you wipe all live customer records?"]
    assert 0.3 <= found.similarity <= 1
    assert outcome.verdict == "block"
    calm = match_censors("What is the weather in Lisbon?", rules, similarities=semantic_similarities, seconds=60.0)
    assert (calm.verdict, calm.timed_out) == ("allow", ())


def test_censor_embedder_failure_stops_no_pattern():
    def broken(meanings, passages):
        raise SimilarityFailed("The model is away.")

    rules = [CensorRule("m", "tea", "absolute", True, 0.5), CensorRule("p", "tea", "warn")]
    outcome = match_censors("tea", rules, similarities=broken, seconds=10.0)
    assert [found.rule.id for found in outcome.matches] == ["p"]
    assert [(missed.rule.id, missed.why) for missed in outcome.timed_out] == [("m", "The model is away.")]


def test_censor_meaning_that_takes_too_long_is_reported():
    ticks = count()
    asked = []

    def slow(meanings, passages):
        asked.extend(passages)
        return [[0.0] * len(passages) for _ in meanings]

    text = "One sentence. " * 100
    rules = [CensorRule("m", "tea", "warn", True, 0.5)]
    outcome = match_censors(text, rules, similarities=slow, seconds=2.0, clock=lambda: float(next(ticks)))
    assert 0 < len(asked) < 100
    assert [missed.rule.id for missed in outcome.timed_out] == ["m"]


def test_censor_meaning_over_http(api, ada, actor_token):
    caller = api.as_token(actor_token)
    made = caller.post("/censors", {"pattern": "The user asks to delete production data", "match": "semantic"})
    assert made.status_code == 201, made.content
    found = caller.post("/censors/check", {"text": "Please drop the prod database tables.", "dry": True}).json()
    assert (found["verdict"], found["matches"][0]["match"]) == ("warn", "semantic")
    assert found["matches"][0]["similarity"] >= made.json()["similarity_threshold"]


def test_censor_check_counts_and_a_dry_run_does_not(api, ada, actor_token):
    caller = api.as_token(actor_token)
    made = caller.post("/censors", {"pattern": SECRETS}).json()
    dry = caller.post("/censors/check", {"text": "my password", "dry": True}).json()
    assert caller.get(f"/censors/{made['id']}").json() == made
    assert not AuditEvent.objects.filter(action="censor.trigger").exists()
    assert caller.post("/censors/check", {"text": "my password"}).json() == dry
    after = caller.get(f"/censors/{made['id']}").json()
    assert after["activation_count"] == 1
    assert after["last_activated_at"] is not None
    record = AuditEvent.objects.get(action="censor.trigger")
    assert record.after == {"verdict": "warn", "censors": [made["id"]], "timed_out": []}
    caller.post("/censors/check", {"text": "nothing"})
    assert AuditEvent.objects.filter(action="censor.trigger").count() == 1


def test_censor_check_of_an_unusable_text_is_refused(api, ada, actor_token, subtests):
    caller = api.as_token(actor_token)
    caller.post("/censors", {"pattern": SECRETS})
    for text in ["x" * 100_001, "x" * 1_000_000, "a\x00b", "a\ud800b", 17, None]:
        with subtests.test(text=text):
            assert_problem(caller.post("/censors/check", {"text": text}), 422, "invalid", field="text")
            assert Censor.objects.get().activation_count == 0


def test_censor_check_of_bytes_not_utf_8_is_refused(api, ada, actor_token):
    assert_problem(api.as_token(actor_token).post("/censors/check", b'{"text": "\xc3\x28"}'), 400, "bad_request")


def test_censor_check_of_an_empty_text_triggers_nothing(api, ada, actor_token):
    api.as_token(actor_token).post("/censors", {"pattern": SECRETS})
    assert api.as_token(actor_token).post("/censors/check", {"text": ""}).json()["verdict"] == "allow"


def test_censor_check_of_one_domain_leaves_out_others(api, ada, actor_token):
    caller = api.as_token(actor_token)
    for domain in ("", "ops", "mail"):
        caller.post("/censors", {"pattern": "token", "domain": domain})
    found = caller.post("/censors/check", {"text": "token", "domain": "ops"}).json()
    assert sorted(only["domain"] for only in found["matches"]) == ["", "ops"]
    assert len(caller.post("/censors/check", {"text": "token"}).json()["matches"]) == 3


def test_censor_absolute_is_for_people(api, ada, all_scopes_token, bob, system):
    body = {"pattern": SECRETS, "severity": "absolute"}
    assert_problem(api.as_token(all_scopes_token).post("/censors", body), 403, "not_allowed", detail="person")
    with pytest.raises(NotAllowed):
        censor_create(agent=ada, by=system, **body)
    made = api.as_person(bob).post("/censors", body, {"agent": "ada"})
    assert (made.status_code, made.json()["severity"], made.json()["author_kind"]) == (201, "absolute", "person")


def test_censor_changes_are_for_people(api, ada, all_scopes_token, alice, bob):
    token = api.as_token(all_scopes_token)
    made = token.post("/censors", {"pattern": SECRETS}).json()
    path = f"/censors/{made['id']}"
    assert_problem(token.request("PATCH", path, body={"severity": "block"}), 403, "not_allowed", detail="Only a signed")
    assert_problem(token.post(f"{path}/false-positive"), 403, "not_allowed")
    viewer = api.as_person(alice)
    for method, where in (("PATCH", path), ("POST", f"{path}/false-positive")):
        assert_problem(viewer.request(method, where, body={}, query={"agent": "ada"}), 403, "not_allowed")
    person = api.as_person(bob)
    body = {"severity": "absolute", "escalation_threshold": 1_000, "message": "it matters"}
    changed = person.request("PATCH", path, body=body, query={"agent": "ada"})
    assert (changed.status_code, changed.json()["severity"]) == (200, "absolute")
    record = AuditEvent.objects.get(action="censor.update")
    assert record.before == {"severity": "warn", "escalation_threshold": 5}
    assert (record.after["severity"], record.message) == ("absolute", "it matters")
    for bad in ({"pattern": "("}, {"severity": ""}, {"escalation_threshold": 0}, {"active": None}, {"id": "x"}):
        assert_problem(person.request("PATCH", path, body=bad, query={"agent": "ada"}), 422, "invalid")
    for number in (1, 2):
        counted = person.post(f"{path}/false-positive", {"message": "a cooking recipe"}, {"agent": "ada"}).json()
        assert counted["false_positive_count"] == number


def test_censor_retired_triggers_nothing_and_can_be_restored(api, ada, actor, actor_token, system):
    censor = censor_create(agent=ada, pattern="token", by=actor)
    censor_retire(censor=censor, by=system, message="too many false positives")
    caller = api.as_token(actor_token)
    assert caller.post("/censors/check", {"text": "token"}).json()["verdict"] == "allow"
    assert caller.get("/censors").json()["items"] == []
    assert len(caller.get("/censors", {"state": "retired"}).json()["items"]) == 1
    with pytest.raises(Conflict):
        censor_retire(censor=censor, by=system)
    censor_update(censor=censor, by=system, active=True)
    assert caller.post("/censors/check", {"text": "token"}).json()["verdict"] == "warn"
    assert set(AuditEvent.objects.filter(object_type="censor").values_list("action", flat=True)) == {
        "censor.create", "censor.retire", "censor.revive",
    }  # fmt: skip


def test_censors_are_separate_by_agent_and_persona(api, ada, actor_token, subconscious_token, other_token):
    mine = api.as_token(actor_token).post("/censors", {"pattern": "token"}).json()["id"]
    hidden = api.as_token(subconscious_token).post("/censors", {"pattern": "token"}).json()["id"]
    shown = {caller: api.as_token(caller).get("/censors").json()["items"] for caller in (actor_token, other_token)}
    assert [censor["id"] for censor in shown[actor_token]] == [mine]
    assert shown[other_token] == []
    assert_problem(api.as_token(actor_token).get(f"/censors/{hidden}"), 404, "not_found")
    assert_problem(api.as_token(other_token).get(f"/censors/{mine}"), 404, "not_found")
    assert_problem(api.as_token(actor_token).get(f"/censors/{uuid4()}"), 404, "not_found")
    checked = api.as_token(actor_token).post("/censors/check", {"text": "token"}).json()
    assert [found["id"] for found in checked["matches"]] == [mine]
    assert api.as_token(other_token).post("/censors/check", {"text": "token"}).json()["matches"] == []
    assert Censor.objects.get(pk=hidden).activation_count == 0


def test_censors_list_is_paged_and_filtered(api, ada, actor_token):
    caller = api.as_token(actor_token)
    for place in range(5):
        body = {"pattern": f"word{place}", "severity": ("warn", "block")[place % 2], "domain": "ops" if place else ""}
        assert caller.post("/censors", body).status_code == 201
    first = caller.get("/censors", {"limit": 3}).json()
    rest = caller.get("/censors", {"limit": 3, "cursor": first["next"]}).json()
    patterns = [censor["pattern"] for censor in first["items"] + rest["items"]]
    assert patterns == [f"word{place}" for place in (4, 3, 2, 1, 0)]
    assert rest["next"] is None
    assert len(caller.get("/censors", {"severity": "block"}).json()["items"]) == 2
    assert len(caller.get("/censors", {"domain": "ops"}).json()["items"]) == 4
    assert len(caller.get("/censors", {"q": "WORD3"}).json()["items"]) == 1
    for bad in ({"limit": -1}, {"limit": 10**20}, {"cursor": "x"}, {"state": "gone"}):
        assert_problem(caller.get("/censors", bad), 422, "invalid")


def test_censors_are_limited_in_number(ada, actor):
    Censor.objects.bulk_create(
        Censor(agent=ada, pattern=f"w{place}", author_kind="token", author_id="1", author_name="x")
        for place in range(MAX_ACTIVE_CENSORS)
    )
    with pytest.raises(Conflict):
        censor_create(agent=ada, pattern="one more", by=actor)


@pytest.mark.django_db(transaction=True)
def test_censor_activations_are_all_counted_concurrently(ada, actor):
    censors = [censor_create(agent=ada, pattern=word, by=actor) for word in ("token", "auth")]
    ready, failed = threading.Barrier(4), []

    def check():
        try:
            ready.wait(10)
            for _ in range(5):
                censor_check(text="an auth token", agent=ada, by=actor, count=True)
        except Exception as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=check) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert [Censor.objects.get(pk=censor.pk).activation_count for censor in censors] == [20, 20]
    assert AuditEvent.objects.filter(action="censor.trigger").count() == 20
