"""Episodes: opened, filled with events or text, closed by what the caller says, and read as a transcript."""

import threading
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection

from identity.models import AuditEvent
from memory.models import Episode, EpisodeEvent, Event, SearchItem
from memory.services.episodes import episode_append, episode_close, episode_open
from nousweb.lib import clock
from nousweb.lib.errors import Conflict
from tests.api.problems import assert_problem

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def happen(agent, *contents, persona="actor", ts=NOON):
    return [
        Event.objects.create(
            agent=agent,
            persona=persona,
            ts=ts + timedelta(minutes=minute),
            loop_id="l",
            kind="user_input",
            visibility="internal",
            content=content,
        ).pk
        for minute, content in enumerate(contents)
    ]


@pytest.fixture
def caller(api, ada, actor_token):
    return api.as_token(actor_token)


def opened(caller, **body):
    answer = caller.post("/episodes", body)
    assert answer.status_code == 201, answer.content
    return answer.json()


def test_episode_from_beginning_to_end(caller, ada):
    episode = opened(caller, title="Move the database", tags=["db"], participants=["Tim"], importance=0.8)
    assert (episode["ended_at"], episode["outcome"], episode["summary_kind"]) == (None, "unknown", "none")
    ids = happen(ada, "one", "two", "three")
    path = f"/episodes/{episode['id']}"
    added = caller.post(f"{path}/events", {"event_ids": [str(ids[2]), ids[0], ids[0]]}).json()
    assert (added["added"], added["already"]) == (2, 0)
    added = caller.post(f"{path}/events", {"event_ids": ids, "text": "Tim nodded."}).json()
    assert (added["added"], added["already"]) == (1, 2)
    closing = {"outcome": "success", "summary": "Moved it.", "lessons": ["Take a backup first."]}
    closed = caller.post(f"{path}/close", closing)
    assert closed.status_code == 200, closed.content
    assert {name: closed.json()[name] for name in closing} == closing
    assert (closed.json()["summary_kind"], closed.json()["title"]) == ("given", "Move the database")
    shown = caller.get(path).json()
    assert [event["content"] for event in shown["transcript"]["events"]] == ["one", "two", "three"]
    assert [event["id"] for event in shown["transcript"]["events"]] == [str(event_id) for event_id in ids]
    assert (shown["transcript"]["next"], shown["detail"]) == (None, "Tim nodded.")
    assert list(AuditEvent.objects.filter(object_type="episode").order_by("id").values_list("action", flat=True)) == [
        "episode.open", "episode.append", "episode.append", "episode.close",
    ]  # fmt: skip


def test_episode_closed_stays_in_search(caller):
    episode = opened(caller, title="Move the database")
    caller.post(f"/episodes/{episode['id']}/close", {"summary": "Moved it."})
    assert Episode.objects.active().filter(ended_at__isnull=False).exists()
    item = SearchItem.objects.get(item_id=episode["id"])
    assert (item.active, item.item_type, item.text) == (True, "episode", "Move the database\nMoved it.")
    caller.request("PATCH", f"/episodes/{episode['id']}", body={"active": False})
    item.refresh_from_db()
    assert not item.active
    assert caller.get("/episodes").json()["items"][0]["active"] is False


@pytest.mark.parametrize("words", ["fix the failing test", "it failed and failed again", "a great success, all done"])
def test_episode_outcome_is_never_inferred_from_words(caller, words):
    episode = opened(caller, title=words, detail=words)
    assert caller.post(f"/episodes/{episode['id']}/close", {"summary": words}).json()["outcome"] == "unknown"


def test_episode_closed_twice_is_a_conflict(caller):
    path = f"/episodes/{opened(caller)['id']}"
    first = caller.post(f"{path}/close").json()
    refused = assert_problem(caller.post(f"{path}/close", {"outcome": "failure"}), 409, "conflict")
    assert refused["ended_at"]
    assert caller.get(path).json()["outcome"] == first["outcome"] == "unknown"
    assert_problem(caller.post(f"{path}/events", {"text": "late"}), 409, "conflict")
    assert caller.get(path).json()["detail"] == ""


def test_episode_without_words_waits_for_its_index_row(caller):
    path = f"/episodes/{opened(caller)['id']}"
    assert not SearchItem.objects.exists()
    caller.post(f"{path}/events", {"text": "We spoke of tea."})
    caller.post(f"{path}/events", {"text": "And of cake."})
    assert SearchItem.objects.get().text == "We spoke of tea.\nAnd of cake."


@pytest.mark.parametrize("text", ["a-b/c." * 16_000, "日本語" * 33_000, "x" * 100_000, "é " * 50_000])
def test_episode_long_details_are_kept(caller, text):
    episode = opened(caller, detail=text)
    assert caller.get(f"/episodes/{episode['id']}").json()["detail"] == text.strip()


def test_episode_detail_is_limited(caller):
    path = f"/episodes/{opened(caller, detail='x' * 99_990)['id']}"
    refused = caller.post(f"{path}/events", {"text": "y" * 10})
    assert_problem(refused, 422, "invalid", field="text", detail="room for 9 more")
    assert caller.post(f"{path}/events", {"text": "y" * 9}).status_code == 200
    assert len(caller.get(path).json()["detail"]) == 100_000


def test_episode_events_of_others_are_refused(api, caller, ada, bruno, subconscious_token):
    own, foreign, hidden = happen(ada, "a")[0], happen(bruno, "b")[0], happen(ada, "s", persona="subconscious")[0]
    path = f"/episodes/{opened(caller)['id']}"
    for bad in (
        [foreign],
        [hidden],
        [own, hidden],
        [10**9],
        [0],
        [-1],
        [2**63],
        [10**30],
    ):
        refused = caller.post(f"{path}/events", {"event_ids": bad})
        assert_problem(refused, 422, "invalid", field="event_ids")
    for bad in (["x"], ["1.0"], [True], [1.0], [None]):
        refused = caller.post(f"{path}/events", {"event_ids": bad})
        assert_problem(refused, 422, "invalid", field="event_ids.0")
    assert not EpisodeEvent.objects.exists()
    dreams = api.as_token(subconscious_token)
    dream = dreams.post("/episodes", {"title": "a dream"}).json()
    assert dreams.post(f"/episodes/{dream['id']}/events", {"event_ids": [own, hidden]}).json()["added"] == 2
    assert_problem(dreams.post(f"{path}/events", {"event_ids": [hidden]}), 403, "not_allowed")


def test_episode_invalid_append_changes_nothing(caller, ada, subtests):
    for body in [
        {},
        {"event_ids": []},
        {"event_ids": list(range(1, 1_002))},
        {"event_ids": ["1"]},
        {"event_ids": [1.5]},
        {"event_ids": [True]},
        {"event_ids": None},
        {"text": "a\x00b"},
        {"text": "x" * 1_000_000},
        {"events": [1]},
    ]:
        with subtests.test(body=body):
            path = f"/episodes/{opened(caller)['id']}"
            before = caller.get(path).json()
            assert_problem(caller.post(f"{path}/events", body), 422, "invalid")
            assert caller.get(path).json() == before


def test_episode_invalid_close_leaves_it_open(caller, subtests):
    for body in [
        {"outcome": "great"},
        {"outcome": None},
        {"title": "x" * 201},
        {"summary": "x" * 8_001},
        {"lessons": ["x"] * 21},
        {"lessons": [""]},
        {"lessons": "one"},
        {"ended_at": "2999-01-01T00:00:00Z"},
        {"ended_at": "2001-01-01T00:00:00Z"},
        {"ended_at": "2001-01-01"},
        {"summary_kind": "judge"},
    ]:
        with subtests.test(body=body):
            path = f"/episodes/{opened(caller)['id']}"
            assert_problem(caller.post(f"{path}/close", body), 422, "invalid", field=next(iter(body)))
            assert caller.get(path).json()["ended_at"] is None


def test_episode_invalid_open_creates_nothing(caller, subtests):
    for body in [
        {"title": "x" * 201},
        {"participants": ["x"] * 51},
        {"participants": ["x" * 101]},
        {"tags": ["x"] * 21},
        {"scope": "world"},
        {"importance": -0.1},
        {"started_at": "2999-01-01T00:00:00Z"},
        {"started_at": "0001-01-01T00:00:00+14:00"},
        {"persona": "subconscious"},
        {"outcome": "success"},
    ]:
        with subtests.test(body=body):
            assert_problem(caller.post("/episodes", body), 422, "invalid", field=next(iter(body)))
            assert not Episode.objects.exists()


def test_episode_description_can_change_after_the_end(caller):
    path = f"/episodes/{opened(caller)['id']}"
    caller.post(f"{path}/close")
    body = {"title": "New", "summary": "By hand.", "tags": ["b", "a"], "importance": 0.1}
    changed = caller.request("PATCH", path, body=body).json()
    assert (changed["title"], changed["summary"], changed["summary_kind"]) == ("New", "By hand.", "given")
    assert (changed["tags"], changed["importance"]) == (["a", "b"], 0.1)
    assert caller.request("PATCH", path, body={"summary": ""}).json()["summary_kind"] == "none"
    audited = AuditEvent.objects.filter(action="episode.update")
    assert audited.count() == 2
    caller.request("PATCH", path, body={"title": "New"})
    caller.request("PATCH", path, body={})
    assert audited.count() == 2, "what changes nothing leaves no trace"
    for bad in ({"title": None}, {"outcome": "success"}, {"importance": 2}, {"active": "no way"}):
        assert_problem(caller.request("PATCH", path, body=bad), 422, "invalid")


def test_episode_transcript_is_paged_in_the_order_of_events(caller, ada):
    late = happen(ada, *"defgh", ts=NOON + timedelta(hours=1))
    early = happen(ada, *"abc")
    path = f"/episodes/{opened(caller)['id']}"
    caller.post(f"{path}/events", {"event_ids": late + early})
    seen, cursor = "", ""
    for _ in range(4):
        page = caller.get(path, {"limit": 3, "cursor": cursor}).json()["transcript"]
        seen += "".join(event["content"] for event in page["events"])
        if not page["next"]:
            break
        cursor = page["next"]
    assert seen == "abcdefgh"
    for bad in ({"limit": 0}, {"limit": 501}, {"cursor": "x"}):
        assert_problem(caller.get(path, bad), 422, "invalid")


def test_episodes_list_is_filtered_and_paged(caller):
    for place in range(5):
        started = (NOON + timedelta(days=place)).isoformat()
        episode = opened(caller, title=f"Day {place} 100%", started_at=started, tags=["t"] if place else [])
        if place % 2:
            caller.post(f"/episodes/{episode['id']}/close", {"outcome": "partial"})

    def shown(**query):
        return [episode["title"][4] for episode in caller.get("/episodes", query).json()["items"]]

    assert shown() == list("43210")
    assert shown(state="open") == list("420")
    assert shown(state="closed") == shown(outcome="partial") == list("31")
    assert shown(q="dAY 2") == ["2"]
    assert shown(q="0%") == list("43210")
    assert shown(tag="t") == list("4321")
    first = caller.get("/episodes", {"limit": 4}).json()
    assert [e["title"][4] for e in caller.get("/episodes", {"limit": 4, "cursor": first["next"]}).json()["items"]] == [
        "0"
    ]
    for bad in ({"state": "active"}, {"outcome": "great"}, {"limit": 1_000}, {"q": "x" * 201}):
        assert_problem(caller.get("/episodes", bad), 422, "invalid")


def test_episodes_of_others_are_not_found(api, caller, other_token, subconscious_token, actor_token):
    mine = opened(caller)["id"]
    hidden = api.as_token(subconscious_token).post("/episodes", {"title": "dream"}).json()["id"]
    assert [episode["id"] for episode in caller.get("/episodes").json()["items"]] == [mine]
    for stranger, key in ((caller, hidden), (api.as_token(other_token), mine), (caller, str(uuid4()))):
        assert_problem(stranger.get(f"/episodes/{key}"), 404, "not_found")
        assert_problem(stranger.post(f"/episodes/{key}/close"), 404, "not_found")
        assert_problem(stranger.post(f"/episodes/{key}/events", {"text": "x"}), 404, "not_found")
        assert_problem(stranger.request("PATCH", f"/episodes/{key}", body={"title": "x"}), 404, "not_found")
    assert Episode.objects.filter(ended_at__isnull=True).count() == 2


def test_episodes_are_read_only_for_viewers(api, caller, alice, bob):
    key = opened(caller)["id"]
    viewer = api.as_person(alice)
    assert viewer.get(f"/episodes/{key}", {"agent": "ada"}).status_code == 200
    assert_problem(viewer.post(f"/episodes/{key}/close", {}, {"agent": "ada"}), 403, "not_allowed")
    assert_problem(viewer.post("/episodes", {}, {"agent": "ada"}), 403, "not_allowed")
    assert api.as_person(bob).post(f"/episodes/{key}/close", {}, {"agent": "ada"}).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_episode_concurrent_closings_have_one_winner_and_no_event_twice(ada, actor):
    ids = happen(ada, *"abcdef")
    episode = episode_open(agent=ada, by=actor)
    came = []

    def at_once(*actions):
        ready = threading.Barrier(len(actions))

        def run(action):
            try:
                ready.wait(10)
                came.append(action())
            except Conflict:
                came.append("conflict")
            finally:
                connection.close()

        threads = [threading.Thread(target=run, args=(action,)) for action in actions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    at_once(*[lambda: episode_append(episode=episode, by=actor, event_ids=ids, text="word").added] * 3)
    assert sorted(came) == [0, 0, 6]
    assert EpisodeEvent.objects.count() == 6
    assert Episode.objects.get().detail == "word\nword\nword"
    came.clear()
    at_once(*[lambda: episode_close(episode=episode, by=actor, outcome="success").outcome] * 2)
    assert sorted(came) == ["conflict", "success"]


def test_episode_import_keeps_its_time(ada, actor):
    with clock.at(NOON):
        episode = episode_open(agent=ada, by=actor, title="then")
    assert (episode.started_at, episode.created_at) == (NOON, NOON)
