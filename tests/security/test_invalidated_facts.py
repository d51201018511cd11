"""What people found wrong stands in no prompt, whatever a token keeps it as, from before or since."""

import pytest

from context.services.agent_settings import context_pin
from context.what_if.change_overrides import invalidation_overrides
from context.what_if.impact import impact_of
from identity.policy.permissions import SCOPE_PERMISSIONS
from identity.principal import Principal
from memory.models import Decision, Fact, MemoryReview
from memory.services.decisions import decision_record
from memory.services.facts import fact_invalidate, fact_learn, fact_restore
from memory.services.reviews.resolve import review_resolve
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib import clock
from tests.factories import make_fact, make_token

WRONG = "The billing database runs MySQL 8 on Windows."
ASK = "What does the billing database run on, which decision was made, and how?"
PUT = "PUT"


@pytest.fixture
def caller(api, ada):
    return api.as_token(make_token(ada, scopes=sorted(SCOPE_PERMISSIONS)))


@pytest.fixture
def wrong(ada, reviewer):
    fact = fact_learn(agent=ada, content=WRONG, subject="billing database", by=reviewer).fact
    return fact_invalidate(fact=fact, by=reviewer, reason="It never did.")


def keep(caller, path, method="POST", status=(200, 201), **body):
    answer = caller.request(method, path, body=body)
    assert answer.status_code in status, answer.content
    return answer.json()


def keep_everywhere(caller, text):
    """The text in every type of memory that a token writes, alone, among other words and as a field."""
    more = f"Note of the day. {text} That is all."
    keep(caller, "/decisions", description=text)
    keep(caller, "/decisions", description=more)
    keep(caller, "/procedures", name="Billing", steps=[text])
    episode = keep(caller, "/episodes", title="Billing database")["id"]
    keep(caller, f"/episodes/{episode}/close", summary=more, outcome="success")
    for key, value in (("a", {"text": more}), ("b", {"says": text, "and": "more of the billing database"})):
        keep(caller, "/documents", PUT, namespace=["notes"], key=key, value=value)
    for kind in ("actor_output", "tool_result"):
        keep(caller, "/events", events=[{"kind": kind, "content": text, "loop_id": kind}])
        keep(caller, f"/loops/{kind}/close")
    embed_pending_rows()


def asked(caller, **more):
    body = {"session_id": "s", "input": ASK, "fill": True, "budget": 6_000, "explain": True, **more}
    answer = caller.post("/context", body)
    assert answer.status_code == 200, answer.content
    return answer.json()


@pytest.mark.parametrize("profile", ["knight_default", "squire_default"])
def test_what_was_invalidated_comes_back_as_nothing_else(caller, wrong, profile):
    keep_everywhere(caller, WRONG)
    found = asked(caller, profile=profile)
    assert "MySQL 8" not in found["system_prompt"]
    refused = [one for one in found["candidates"] if one["verdict"] == "invalidated"]
    assert {"decision", "procedure", "document"} <= {one["type"] for one in refused}
    assert "people marked as wrong" in refused[0]["reason"]


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_the_blast_radius_foresees_what_goes_with_a_fact_invalidated(caller, ada, reviewer, again):
    fact = fact_learn(agent=ada, content=WRONG, subject="billing database", by=reviewer).fact
    if again:
        review = fact_learn(agent=ada, content=WRONG, subject="accounts", by=reviewer).review
        review_resolve(review=MemoryReview.objects.get(pk=review), resolution="both", by=reviewer)
    keep_everywhere(caller, WRONG)
    asked(caller)
    (row,) = impact_of(agent=ada, overrides=invalidation_overrides(fact), by=reviewer).changed
    fact_invalidate(fact=fact, by=reviewer, reason="It never did.")
    assert ("MySQL 8" in row.after) is again
    assert sorted(asked(caller)["system_prompt"].splitlines()) == sorted(row.after.splitlines())


def test_what_was_kept_before_it_was_invalidated_goes_too(caller, ada, reviewer):
    fact = fact_learn(agent=ada, content=WRONG, subject="billing database", by=reviewer).fact
    keep_everywhere(caller, WRONG)
    then = clock.now().isoformat()
    assert "MySQL 8" in asked(caller)["system_prompt"]
    fact = fact_invalidate(fact=fact, by=reviewer, reason="It never did.")
    assert "MySQL 8" not in asked(caller)["system_prompt"]
    assert "MySQL 8" in asked(caller, as_of=then)["system_prompt"]
    fact_restore(fact=fact, by=reviewer, reason="It does.")
    assert "MySQL 8" in asked(caller)["system_prompt"]


@pytest.mark.parametrize(
    "other",
    [
        "The billing database runs MySQL 9 on Windows.",
        "The billing database never runs MySQL 8 on Windows.",
        "It was wrong to say that the billing database runs MySQL 8 on Windows.",
        "The search database runs MySQL 8 on Windows.",
    ],
)
def test_what_differs_from_what_was_invalidated_stays(caller, wrong, other):
    keep(caller, "/decisions", description=other)
    embed_pending_rows()
    assert other in asked(caller)["system_prompt"]


def test_what_a_person_wrote_or_pinned_stays(caller, ada, wrong, reviewer):
    decision_record(agent=ada, description=WRONG, by=reviewer)
    embed_pending_rows()
    assert WRONG in asked(caller)["system_prompt"]
    Decision.objects.update(endorsed=False)
    assert WRONG not in asked(caller)["system_prompt"]
    pinned = Decision.objects.get()
    context_pin(agent=ada, item_type="decision", item_id=str(pinned.pk), by=reviewer)
    assert WRONG in asked(caller)["system_prompt"]


def test_what_a_person_learns_again_is_wrong_no_more(caller, ada, wrong, reviewer):
    fact_learn(agent=ada, content=WRONG, subject="billing database", by=reviewer)
    keep(caller, "/decisions", description=f"As agreed. {WRONG}")
    embed_pending_rows()
    assert "As agreed." in asked(caller)["system_prompt"]
    assert Fact.objects.active().count() == 1


def test_what_is_wrong_in_one_project_may_be_right_in_another(caller, ada, reviewer):
    fact = fact_learn(agent=ada, content=WRONG, subject="billing database", project="zeus", by=reviewer).fact
    fact_invalidate(fact=fact, by=reviewer, reason="Not there.")
    for project in ("zeus", "hera"):
        keep(caller, "/decisions", description=WRONG, project=project)
    embed_pending_rows()
    assert WRONG not in asked(caller, project="zeus")["system_prompt"]
    assert WRONG in asked(caller, project="hera")["system_prompt"]


@pytest.mark.parametrize("content", [f"Note of the day. {WRONG}", f"{WRONG} That is all.", f"Indeed: {WRONG}"])
def test_what_was_invalidated_is_learned_in_no_wrapping(caller, ada, wrong, reviewer, content):
    for category in ("concept", "preference"):
        assert keep(caller, "/facts", content=content, subject="weather", category=category)["action"] != "stored"
    make_fact(ada, content, reviewer, subject="weather")
    Fact.objects.update(endorsed=False)
    embed_pending_rows()
    assert "MySQL 8" not in asked(caller)["system_prompt"]


def test_system_principal_is_no_person(ada, wrong):
    by = Principal.of_system("tests")
    assert fact_learn(agent=ada, content=WRONG, subject="x", by=by).action in ("queued", "decided")
