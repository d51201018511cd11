"""The subconscious' learning and dreaming: loops of its own in the log."""

from datetime import timedelta

import pytest

from identity.principal import Principal
from memory.lifecycle.handlers import DREAM
from memory.lifecycle.job_words import handler_label
from memory.lifecycle.runner import activities_heal, activity_record, dream_queue, job_run
from memory.models import Event, Job, LoopSummary
from memory.services.episodes import episode_close, episode_open
from memory.services.erasure import event_erase
from memory.services.events import events_record
from memory.tasks import backfill_layers
from nousweb.lib import clock

TITLE = "A secret voyage to Iceland"


@pytest.fixture
def episode(ada, actor):
    """A closed episode, of which the lifecycle has learned."""
    episode = episode_open(agent=ada, title=TITLE, detail="Tim sailed to Iceland. It was cold.", by=actor)
    episode_close(episode=episode, outcome="success", by=actor)
    work()
    return episode


def work():
    for key in Job.objects.filter(status="queued").order_by("pk").values_list("pk", flat=True):
        assert job_run(key) == "done"


def loops(client):
    return {loop["loop_id"]: loop for loop in client.get("/loops").json()["items"]}


def contents(client, loop_id):
    events = client.get("/events", {"loop_id": loop_id, "order": "earliest"}).json()["items"]
    return [(event["kind"], event["content"]) for event in events]


def test_learning_is_a_loop_of_the_subconscious(api, ada, episode, actor_token, subconscious_token):
    night = api.as_token(subconscious_token)
    loop_id = f"learn:episode_close:{episode.pk}"
    found = loops(night)[loop_id]
    assert (found["persona"], found["closed_by"]) == ("subconscious", "output")
    kinds, texts = zip(*contents(night, loop_id), strict=True)
    assert kinds == ("subconscious_prompt", "subconscious_output")
    assert str(episode.pk) in texts[0]
    assert "summary: extracted" in texts[1]
    # It names memories and quotes none, so that an erasure leaves nothing of them here.
    assert "Iceland" not in " ".join(texts)
    assert loop_id not in loops(api.as_token(actor_token))


def test_dream_is_one_loop_a_day_with_all_its_parts(api, ada, bruno, subconscious_token, actor_token):
    with clock.at(clock.now() - timedelta(days=1)):
        assert dream_queue() == 2 * len(DREAM)
        work()
        dream = f"dream:{clock.now():%Y-%m-%d}"
    night = api.as_token(subconscious_token)
    assert list(loops(night)) == [dream]
    found = contents(night, dream)
    assert [kind for kind, _ in found] == ["subconscious_prompt", *["system_event"] * len(DREAM), "subconscious_output"]
    assert sorted(content.split(":")[0] for kind, content in found if kind == "system_event") == sorted(
        map(handler_label, DREAM)
    )
    assert loops(night)[dream]["closed_by"] == "output"
    assert loops(api.as_token(actor_token)) == {}
    dream_queue()
    work()
    assert len(loops(night)) == 2


def test_activity_of_a_killed_worker_is_logged_later_and_once(ada, episode):
    done = Job.objects.get(handler="episode_close")
    before = Event.objects.count()
    assert activities_heal() == 0
    assert not activity_record(done)
    # As if the worker had been killed between the job and its record.
    Job.objects.filter(pk=done.pk).update(queued_at=done.queued_at + timedelta(seconds=1))
    assert backfill_layers()["activities"] == 1
    assert (activities_heal(), Event.objects.count()) == (0, before + 2)
    assert LoopSummary.objects.get(persona="subconscious").event_count == 4


def test_activities_are_logged_after_the_opening_of_their_dream_was_erased(ada, charlie):
    dream_queue()
    work()
    opening = Event.objects.get(agent=ada, kind="subconscious_prompt")
    event_erase(event=opening, by=Principal.of_user(charlie), reason="It was private.")
    before = Event.objects.filter(agent=ada).count()
    part = Job.objects.filter(agent=ada, handler__in=DREAM).first()
    Job.objects.filter(pk=part.pk).update(queued_at=part.queued_at + timedelta(microseconds=1))
    assert (activities_heal(), Event.objects.filter(agent=ada).count()) == (1, before + 1)


def test_activity_that_cannot_be_logged_costs_the_job_nothing(ada, actor, system):
    """A token of the subconscious has taken the key for something else."""
    dream_queue()
    taken = {"kind": "error", "content": "Mine.", "key": f"dream:{clock.now():%Y-%m-%d}:prompt"}
    events_record(agent=ada, events=[taken], by=system, persona="subconscious")
    work()
    assert (activities_heal(), Event.objects.filter(agent=ada).count()) == (0, 1)
