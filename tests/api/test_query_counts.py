"""How many queries each endpoint takes, and that the number stays when there is a lot."""

from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from identity.models import IdentityVersion
from identity.principal import Principal
from identity.services.proposals import identity_propose
from memory.models import Fact
from memory.services.censors import censor_create
from memory.services.facts import fact_learn
from tests.factories import make_copies

AUTHENTICATION = 1
"""The token with its agent; its time of use is noted at most once a minute."""


@pytest.fixture
def small(ada, bob, actor):
    """A few of everything."""
    by = Principal.of_user(bob)
    for text in ("Check.", "Check twice."):
        identity_propose(agent=ada, section="protocols", content=text, by=by)
    fact = fact_learn(agent=ada, content="Tim sails.", category="person", by=actor).fact
    proposal = identity_propose(agent=ada, section="character", content="Brisk.", by=actor).proposal
    return {"fact_id": fact.pk, "proposal_id": proposal.pk}


@pytest.fixture
def large(small, ada):
    """The same with 10,000 facts and 1,000 versions of one section."""
    for category in ("person", "concept"):
        first = Fact.objects.create(agent=ada, content="Fact.", category=category)
        make_copies(first, 4_999, content="'Fact ' || n || '.'")
    current = IdentityVersion.objects.current().get(agent=ada, section="protocols")
    IdentityVersion.objects.bulk_create([
        IdentityVersion(
            agent=ada, section="protocols", version=current.version + number, content=f"Check {number} times.",
            is_current=False, previous=current, author_kind="system", author_id="t", author_name="t",
        )
        for number in range(1, 1_000)
    ])  # fmt: skip
    return small


READS = {
    "/identity": 1,
    "/identity/protocols": 1,
    "/identity/protocols/history": 1,
    "/identity/protocols/history?limit=200": 1,
    "/identity/protocols/diff?from=1&to=2": 2,
    "/proposals/{proposal_id}": 1,
    "/facts": 1,
    "/facts?limit=200&category=person": 1,
    "/facts/{fact_id}": 1,
    "/profile": 2,
    "/fingerprints": 1,
    "/documents?limit=50": 1,
    "/documents/namespaces": 1,
}


def queries(call):
    with CaptureQueriesContext(
        connection,
    ) as captured:
        answer = call()
    assert answer.status_code < 300, answer.content[:300]
    return [query["sql"] for query in captured]


@pytest.mark.parametrize("size", ["small", "large"])
def test_query_count_of_reads(request, api, ada, actor_token, size):
    known = request.getfixturevalue(size)
    caller = api.as_token(actor_token)
    caller.get("/identity")
    taken = {path: len(queries(partial(caller.get, path.format(**known)))) for path in READS}
    assert taken == {path: count + AUTHENTICATION for path, count in READS.items()}


@pytest.mark.parametrize("size", ["small", "large"])
def test_query_count_of_a_page_in_the_middle(request, api, ada, actor_token, size):
    request.getfixturevalue(size)
    for number in range(3):
        Fact.objects.create(agent=ada, content=str(number))
    caller = api.as_token(actor_token)
    cursor = caller.get("/facts", {"limit": 1}).json()["next"]
    assert len(queries(lambda: caller.get("/facts", {"limit": 50, "cursor": cursor}))) == 1 + AUTHENTICATION


def test_query_count_of_a_person_adds_session_person_and_permissions(api, ada, alice):
    caller = api.as_person(alice)
    taken = queries(lambda: caller.get("/identity", {"agent": "ada"}))
    # Session, user, rights of the user and of the groups, agent, versions.
    assert len(taken) == 6


# One of each is the row of the change feed; that of a context rides with its own row.
WRITES = {
    "PUT /identity/values": 12,
    "POST /facts": 18,
    "PUT /documents": 14,
    "POST /context": 8,
}
"""Of a context for a knight two are about what tools answered last: in its session, and within a day."""
CORE_MEMORY_READ_WHOLE = 3
"""Where core memory has more than what is read at first: the rest of it, and what contests that."""
BODIES = {
    "PUT /identity/values": {"content": "Truth.", "mode": "propose"},
    "POST /facts": {"content": "Tim rows."},
    "PUT /documents": {"namespace": ["notes"], "key": "tea", "value": {"text": "Tim rows."}},
    "POST /context": {"session_id": "s", "input": "?"},
}


@pytest.mark.parametrize("size", ["small", "large"])
def test_query_count_of_writes(request, api, ada, actor_token, size):
    """Savepoints included, which a call of its own transaction has too."""
    request.getfixturevalue(size)
    caller = api.as_token(actor_token)
    caller.get("/identity")
    taken = {}
    for name, body in BODIES.items():
        method, path = name.split()
        taken[name] = len(queries(partial(caller.request, method, path, body=body)))
    expected = {name: count + AUTHENTICATION for name, count in WRITES.items()}
    expected["POST /context"] += CORE_MEMORY_READ_WHOLE * (size == "large")
    assert taken == expected


@pytest.mark.parametrize("bodies", ["", "&bodies=true"])
def test_query_count_of_changes(api, ada, bob, actor, actor_token, bodies):
    """Publishing, the ends of the streams, the changes; of bodies one for each type of object."""
    caller, by = api.as_token(actor_token), Principal.of_user(bob)

    def more(number):
        old = fact_learn(agent=ada, content=f"The harbour has {number} boats.", by=actor).fact
        caller.post(f"/facts/{old.pk}/supersede", {"by": {"content": f"The harbour has {number + 50} boats."}})
        identity_propose(agent=ada, section="protocols", content=f"Check {number} times.", by=by)
        identity_propose(agent=ada, section="values", content=f"Calm {number}.", by=actor)
        censor_create(agent=ada, pattern=f"storm {number}", by=actor)
        caller.post("/episodes", {"title": f"Episode {number}"})
        caller.post("/decisions", {"description": f"Decision {number}"})
        caller.post("/procedures", {"name": f"Procedure {number}", "description": "Do."})

    def taken():
        return queries(lambda: caller.get(f"/changes?limit=500{bodies}"))

    for town in ("Graz", "Linz"):
        # The second one opens a review.
        fact_learn(agent=ada, content=f"The harbour's twin is in {town}.", subject="harbour", by=actor)
    more(1)
    more(2)
    few = taken()
    for number in range(3, 6):
        more(number)
    assert len(taken()) == len(few)
    assert len(few) == AUTHENTICATION + 3 + (8 if bodies else 0)
