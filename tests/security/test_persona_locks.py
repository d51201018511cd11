"""The actor never waits for the subconscious: a transaction that it holds open keeps the actor from nothing.

Two real connections; the actor's has a short lock time-out, so that waiting is an error and not a matter of time.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from django.db import connection, connections

from context.models import ContextRun
from context.services.context import context_outcome, context_respond
from identity.services.proposals import identity_propose
from memory.models import Decision, Episode
from memory.services.censors import censor_check, censor_create
from memory.services.decisions import decision_record
from memory.services.episodes import episode_append, episode_open
from memory.services.events import events_record
from memory.services.facts import fact_learn
from memory.services.loops import loop_close
from memory.services.procedures import procedure_create
from memory.services.working_memory import working_item_add
from memory.tasks import embed_pending
from tests.factories import make_principal
from tests.http import ApiClient

pytestmark = pytest.mark.django_db(transaction=True)

WAITS = "1s"


@pytest.fixture
def dreamer(ada, system):
    return make_principal(ada, "subconscious", name="night")


@pytest.fixture
def run(ada, api, subconscious_token):
    answer = api.as_token(subconscious_token).post("/context", {"session_id": "s", "input": "Who sails?"})
    return ContextRun.objects.get(pk=answer.json()["id"])


@pytest.fixture
def trip(ada, actor):
    return episode_open(agent=ada, title="A trip", detail="Tim sails.", by=actor)


def dream(ada, by, run, trip):
    """Everything that the subconscious can write, in the transaction of the caller."""
    recorded = events_record(agent=ada, events=[{"kind": "error", "content": "Night.", "loop_id": "l"}], by=by)
    loop_close(agent=ada, loop_id="l", by=by)
    fact_learn(agent=ada, content="Tim dreams of boats.", subject="Tim", by=by)
    own = episode_open(agent=ada, title="Night", by=by)
    episode_append(episode=own, event_ids=[recorded[0].event.pk], by=by)
    decision_record(agent=ada, description="Sleep.", episode=trip, by=by)
    procedure_create(agent=ada, name="Sleep", by=by)
    censor_create(agent=ada, pattern="night", by=by)
    censor_check(agent=ada, text="A boat at night.", by=by, count=True)
    working_item_add(agent=ada, session_id="s", text="Sleep.", by=by)
    identity_propose(agent=ada, section="preferences", content="Sleeps.", by=by)
    identity_propose(agent=ada, section="character", content="Sleepy.", by=by)
    context_respond(run=run, response="Tim sails.", by=by)
    context_outcome(run=run, outcome="success", by=by)


@contextmanager
def held_open(work):
    """Do `work` on another connection, and keep its transaction open meanwhile."""
    other = ThreadPoolExecutor(1)

    def begin():
        connection.set_autocommit(False)
        work()

    def end():
        connection.rollback()
        connection.set_autocommit(True)
        connections.close_all()

    other.submit(begin).result(timeout=60)
    try:
        yield
    finally:
        other.submit(end).result(timeout=60)
        other.shutdown()


ACTS = {
    "events": ("POST", "/events", {"events": [{"kind": "user_input", "content": "Day.", "loop_id": "l"}]}, 201),
    "fact": ("POST", "/facts", {"content": "Tim dreams of boats.", "subject": "Tim"}, 201),
    "context": ("POST", "/context", {"session_id": "s", "input": "Who sails boats?", "explain": True}, 200),
    "identity": ("PUT", "/identity/preferences", {"content": "Wakes."}, 200),
    "proposal": ("PUT", "/identity/character", {"content": "Awake."}, 202),
    "check": ("POST", "/censors/check", {"text": "A boat at night."}, 200),
    "working": ("POST", "/working/s/items", {"text": "Wake."}, 201),
    "episode": ("POST", "/episodes/{trip}/events", {"text": "Tim rows.", "event_ids": ["{event}"]}, 200),
    "close": ("POST", "/episodes/{trip}/close", {"outcome": "success"}, 200),
    "loop": ("POST", "/loops/day/close", None, 200),
    "index": ("GET", "/index", None, 200),
    "recall": ("GET", "/recall?q=boats", None, 200),
}


@pytest.mark.parametrize("act", ACTS)
def test_persona_transaction_open_in_the_subconscious_blocks_no_act_of_the_actor(
    ada, actor, actor_token, dreamer, run, trip, act
):
    events = [{"kind": "user_input", "content": "Day.", "loop_id": "day"}]
    event = events_record(agent=ada, events=events, by=actor)[0].event.pk
    censor_create(agent=ada, pattern="boat", by=actor)
    embed_pending()
    method, path, body, expected = ACTS[act]
    if body and "event_ids" in body:
        body = body | {"event_ids": [event]}
    with held_open(lambda: dream(ada, dreamer, run, trip)):
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{WAITS}'")
        try:
            answer = ApiClient().as_token(actor_token).request(method, path.replace("{trip}", str(trip.pk)), body=body)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout")
    assert answer.status_code == expected, answer.content
    assert Episode.objects.filter(persona="subconscious").count() == 0
    assert Decision.objects.count() == 0
