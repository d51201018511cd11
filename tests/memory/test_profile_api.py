"""GET /api/profile: what an agent knows of its user, without any search."""

from django.db import connection

from identity.principal import Principal
from identity.services.proposals import identity_propose
from memory.persona import ActorMemory
from memory.services.facts import fact_invalidate, fact_learn
from tests.api.problems import assert_problem
from tests.factories import make_token


def contents(facts):
    return [fact["content"] for fact in facts]


def test_profile_holds_the_users_facts_preferences_and_rules(api, ada, bruno, system, reviewer, actor_token):
    for category, content in (
        ("person", "Tim lives in Silver Spring."),
        ("preference", "Tim prefers Celsius."),
        ("rule", "Never deploy on Fridays."),
        ("technical", "Spec 006.1 is planned."),
    ):
        fact_learn(agent=ada, content=content, category=category, subject="Tim", by=system)
    fact_learn(agent=bruno, content="Eve lives in Paris.", category="person", by=system)
    gone = fact_learn(agent=ada, content="Tim lives on the moon.", category="person", subject="", by=system).fact
    fact_invalidate(fact=gone, by=reviewer)
    identity_propose(agent=ada, section="preferences", content="Answer in short.", by=reviewer)
    answer = api.as_token(actor_token).get("/profile")
    assert answer.status_code == 200
    body = answer.json()
    assert body["agent"] == "ada"
    assert contents(body["user"]) == ["Tim lives in Silver Spring."]
    assert contents(body["preferences"]) == ["Tim prefers Celsius."]
    assert contents(body["rules"]) == ["Never deploy on Fridays."]
    assert body["counts"] == {"user": 1, "preferences": 1, "rules": 1}
    assert body["section"]["content"] == "Answer in short."
    assert body["section"]["version"] == 1


def test_profile_has_peoples_word_first_and_counts_what_it_leaves_out(api, ada, bob, actor, actor_token):
    for place in range(3):
        fact_learn(agent=ada, content=f"Tim owns boat {place}.", category="person", confidence=1.0, by=actor)
    person = Principal.of_user(bob)
    fact_learn(agent=ada, content="Tim is a sailor.", category="person", confidence=0.5, by=person)
    body = api.as_token(actor_token).get("/profile", {"limit": 2}).json()
    assert contents(body["user"])[0] == "Tim is a sailor."
    assert len(body["user"]) == 2
    assert body["counts"] == {"user": 4, "preferences": 0, "rules": 0}
    assert body["section"] is None


def test_profile_of_the_actor_has_nothing_of_the_subconscious(api, ada, actor_token, subconscious_token):
    night = api.as_token(subconscious_token)
    night.post("/facts", {"content": "Tim seems tired.", "category": "person"})
    assert api.as_token(actor_token).get("/profile").json()["counts"]["user"] == 0
    assert contents(night.get("/profile").json()["user"]) == ["Tim seems tired."]


def test_profile_needs_the_right_to_read_memory_and_identity(api, ada):
    for name, scopes in (("i", ["identity:read"]), ("m", ["memory:read"])):
        refused = api.as_token(make_token(ada, name=name, scopes=scopes)).get("/profile")
        assert_problem(refused, 403, "not_allowed")


def test_first_of_core_memory_is_found_by_an_index_in_its_order(ada):
    with connection.cursor() as cursor:
        # Only where it cannot do otherwise: few rows are sorted sooner.
        for way in ("seqscan", "bitmapscan", "sort", "incremental_sort"):
            cursor.execute(f"SET LOCAL enable_{way} = off")
    plan = ActorMemory(ada).facts.active().profile().human_verified_first()[:5].explain()
    assert "using fact_core" in plan
    assert "Sort" not in plan
