"""Expectations: what people demand of prompts, how it is checked, and which change is named when it breaks."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from context.expectations.cause_bisection import checks_queue
from context.expectations.services import (
    expectation_create,
    expectation_retire,
    expectation_totals,
    expectation_update,
    expectations_of,
    expectations_verify,
    request_of,
    result_of,
)
from context.models import Expectation, ExpectationResult, ExpectationWatch
from context.services.agent_settings import context_pin, context_unpin, settings_update
from context.what_if.change_overrides import fact_overrides
from context.what_if.impact import impact_of
from identity.models import Agent, AuditEvent, Change
from identity.principal import Principal
from identity.services.change_feed import streams_publish
from memory.embedding import embedder_named, query_prefetch
from memory.embedding.query_prefetch import RecentQueries
from memory.embedding.registry import configured_name
from memory.lifecycle.runner import job_run
from memory.models import Fact, Job, SearchItem
from memory.services.erasure import agent_erase, fact_erase
from memory.services.facts import fact_edit, fact_invalidate, fact_learn, fact_restore, fact_supersede
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.services.subjects.changes import subject_split
from memory.services.working_memory import working_clear, working_item_add
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid, NotAllowed, NotFound
from tests.factories import make_fact, make_principal, make_run
from tests.http import signed_in

QUESTION = "Which database does the billing service use?"


@pytest.fixture
def billing(ada: Agent, system: Principal) -> Fact:
    """A fact that every prompt about the billing database holds."""
    fact = make_fact(ada, "The billing service uses the database PostgreSQL.", system, subject="billing")
    make_fact(ada, "The office is closed on Sunday afternoons.", system, subject="office")
    embed_pending_rows()
    return fact


def expect(agent: Agent, by: Principal, requirement: str = "present", **more: Any) -> Expectation:
    """An expectation of the prompt for QUESTION; about a memory unless `more` names another target."""
    more.setdefault("target", "memory")
    request = more.pop("request", None) or request_of(QUESTION)
    return expectation_create(agent=agent, by=by, request=request, requirement=requirement, **more)


def about(fact: Fact) -> dict[str, str]:
    return {"item_type": "fact", "item_id": str(fact.pk)}


def checked(expectation: Expectation, by: Principal) -> ExpectationResult:
    """The result after a check of this moment."""
    embed_pending_rows()
    expectations_verify(agent=Agent.objects.get(pk=expectation.agent_id), by=by, ids=[expectation.pk])
    result = ExpectationResult.objects.get(expectation=expectation, is_current=True)
    assert result.checked_at is not None
    return result


def test_expectation_memory_must_stay_until_a_change_takes_it(ada, billing, reviewer):
    one = expect(ada, reviewer, **about(billing))
    assert checked(one, reviewer).state == "passed"
    for number in range(5):
        make_fact(ada, f"Unrelated thing number {number} is painted green.", reviewer)
    fact_invalidate(fact=billing, by=reviewer, reason="It moved.")
    for number in range(5):
        make_fact(ada, f"Another thing number {number} is painted blue.", reviewer)
    result = checked(one, reviewer)
    assert (result.state, result.code) == ("failed", "invalidated")
    cause = result.cause
    assert (cause["kind"], cause["object_id"], cause["by"]) == ("fact.invalidated", str(billing.pk), "bob")
    assert cause["among"] > 10
    assert Change.objects.filter(key=cause["change"], kind="fact.invalidated").exists()
    fact_restore(fact=billing, by=reviewer, reason="It did not.")
    result = checked(one, reviewer)
    assert (result.state, result.cause["kind"]) == ("passed", "fact.restored")
    assert [each.state for each in one.results.all()] == ["passed", "failed", "passed"]


def test_expectation_superseded_memory_names_its_successor(ada, billing, reviewer):
    one = expect(ada, reviewer, **about(billing))
    assert checked(one, reviewer).passed
    successor = make_fact(ada, "Since March invoices are kept in MariaDB instead.", reviewer)
    fact_supersede(old=billing, new=successor, by=reviewer)
    result = checked(one, reviewer)
    assert (result.state, result.code, result.cause["kind"]) == ("failed", "superseded", "fact.superseded")
    assert str(successor.pk) in result.detail


def test_expectation_never_again_is_broken_by_id_and_by_the_same_words(ada, billing, reviewer):
    one = expect(ada, reviewer, "absent", **about(billing))
    assert checked(one, reviewer).code == "included"
    fact_invalidate(fact=billing, by=reviewer, reason="Wrong.")
    assert checked(one, reviewer).passed
    again = fact_learn(
        agent=ada, content=billing.content, subject="payments", category="technical", by=reviewer, importance=0.9
    ).fact
    result = checked(one, reviewer)
    assert (result.state, result.cause["object_id"]) == ("failed", str(again.pk)), result.detail
    assert result.code in ("same_words", "included")


def test_expectation_only_of_its_subject(ada, billing, reviewer):
    one = expect(ada, reviewer, "only_of_subject", **about(billing))
    assert checked(one, reviewer).code == "alone"
    make_fact(ada, "Nobody uses the coffee machine.", reviewer, subject="kitchen")
    other = make_fact(ada, "The billing service keeps a second database for invoices.", reviewer, subject="Billing")
    make_fact(ada, "The lift goes to the fifth floor.", reviewer, subject="lift")
    result = checked(one, reviewer)
    assert (result.state, result.code) == ("failed", "not_alone")
    assert (result.cause["kind"], result.cause["object_id"]) == ("fact.learned", str(other.pk))
    with pytest.raises(Invalid):
        expect(ada, reviewer, "only_of_subject", target="section", section="identity")


def test_expectation_text_ignores_the_words_of_the_question(ada, billing, reviewer):
    stays = expect(ada, reviewer, target="text", text="database  postgresql")
    never = expect(ada, reviewer, "absent", target="text", text="billing service use?")
    assert checked(stays, reviewer).passed
    assert checked(never, reviewer).passed, "the question itself says it"
    fact_edit(fact=billing, by=reviewer, category="preference", reason="It is one.")
    assert checked(stays, reviewer).passed, "core memory says it too"
    fact_invalidate(fact=billing, by=reviewer, reason="It moved.")
    result = checked(stays, reviewer)
    assert (result.state, result.cause["kind"]) == ("failed", "fact.invalidated")


def test_expectation_section_of_the_identity_whole(ada, billing, reviewer, system, charlie):
    one = expect(ada, reviewer, target="section", section="identity.character")
    assert checked(one, reviewer).passed
    by = Principal.of_user(charlie)
    settings_update(agent=ada, by=by, budgets={"identity": 0})
    result = checked(one, reviewer)
    assert (result.state, result.code) == ("failed", "section_missing")
    assert (result.cause["kind"], result.cause["by"]) == ("agent.changed", "charlie")


def test_expectation_search_for_the_cause_ends_at_a_check_that_cannot_run(ada, reviewer, charlie, monkeypatch):
    one = expect(ada, reviewer, target="section", section="identity.character")
    assert checked(one, reviewer).passed
    for number in range(20):
        make_fact(ada, f"The lighthouse has {number} steps.", reviewer)
    settings_update(agent=ada, by=Principal.of_user(charlie), budgets={"identity": 0})
    embed_pending_rows()
    asked = []
    embedder = type(embedder_named(configured_name()))
    embed = embedder.embed_query

    def breaks(self: object, text: str) -> Any:
        asked.append(text)
        return embed(self, text) if len(asked) <= 3 else _unavailable(self, text)

    monkeypatch.setattr(embedder, "embed_query", breaks)
    monkeypatch.setattr(query_prefetch, "_recent", RecentQueries(max_size=1, seconds=0))
    result = checked(one, reviewer)
    assert (result.state, result.cause.get("kind")) == ("failed", None)
    assert "cannot be reconstructed" in result.cause["note"]
    assert len(asked) == 4, "now, at the mark, now as of then, and the one that breaks"


def test_expectation_pin_removed_is_the_named_change(ada, billing, reviewer):
    fact = make_fact(ada, "The harbour master drinks tea at four.", reviewer)
    embed_pending_rows()
    context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)
    one = expect(ada, reviewer, **about(fact))
    assert checked(one, reviewer).passed
    make_fact(ada, "A thing is painted white.", reviewer)
    context_unpin(agent=ada, item_type="fact", item_id=str(fact.pk), by=reviewer)
    make_fact(ada, "A thing is painted black.", reviewer)
    result = checked(one, reviewer)
    assert (result.state, result.cause["kind"], result.cause["by"]) == ("failed", "pin.removed", "bob")


def test_expectation_that_cannot_run_is_neither_passed_nor_failed(ada, reviewer, monkeypatch, billing):
    absent = expect(ada, reviewer, "absent", target="text", text="no such words anywhere")
    assert checked(absent, reviewer).passed
    Expectation.objects.filter(pk=absent.pk).update(request={**absent.request, "profile": "no-such-profile"})
    absent.refresh_from_db()
    result = checked(absent, reviewer)
    assert (result.state, result.code) == ("error", "error")
    found = list(expectations_of(ada, reviewer).active())
    assert expectation_totals(found).state == "error"


def test_expectation_of_an_erased_memory_is_decided_and_quotes_are_gone(ada, billing, reviewer, charlie):
    by = Principal.of_user(charlie)
    stays = expect(ada, reviewer, **about(billing))
    never = expect(ada, reviewer, "absent", **about(billing))
    quoting = expect(ada, reviewer, "absent", target="text", text=billing.content, reason="Secret.")
    for one in (stays, never, quoting):
        checked(one, reviewer)
    receipt = fact_erase(fact=billing, by=by, reason="Asked for.")
    assert receipt.rows["expectation"] == 1
    assert not Expectation.objects.filter(pk=quoting.pk).exists()
    result = checked(stays, reviewer)
    assert (result.state, result.code, result.cause["kind"]) == ("failed", "gone", "fact.erased")
    assert checked(never, reviewer).passed
    held = json.dumps(list(ExpectationResult.objects.values("detail", "cause")), default=str)
    assert "PostgreSQL" not in held
    assert not AuditEvent.objects.filter(action="expectation.create", after__text=billing.content).exists()


def test_expectations_are_written_by_people_only(ada, billing, reviewer, alice, charlie):
    token = make_principal(ada, scopes=["expectations:run", "memory:read", "context:read"])
    for by in (token, Principal.of_user(alice)):
        with pytest.raises(NotAllowed):
            expect(ada, by, **about(billing))
    one = expect(ada, reviewer, **about(billing))
    with pytest.raises(NotAllowed):
        expectation_retire(expectation=one, by=token)
    assert [each.pk for each in expectations_verify(agent=ada, by=token)] == [one.pk]
    hidden = expect(ada, Principal.of_user(charlie), target="section", section="frame", persona="subconscious")
    for by in (token, reviewer):
        assert hidden not in expectations_of(ada, by)
        with pytest.raises(NotFound):
            expectations_verify(agent=ada, by=by, ids=[hidden.pk])
    with pytest.raises(NotAllowed):
        expect(ada, reviewer, target="section", section="frame", persona="subconscious")
    actions = AuditEvent.objects.filter(object_type="expectation").values_list("action", "author_name", "persona")
    assert set(actions) == {
        ("expectation.create", "bob", "actor"),
        ("expectation.create", "charlie", "subconscious"),
    }


def test_expectation_edit_is_a_revision_and_checked_anew(ada, billing, reviewer):
    one = expect(ada, reviewer, target="text", text="postgresql")
    assert checked(one, reviewer).passed
    changed = expectation_update(expectation=one, by=reviewer, text="mariadb", base_revision=1)
    assert changed.revision == 2
    assert result_of(expectations_of(ada, reviewer).get()) is None
    with pytest.raises(Conflict):
        expectation_update(expectation=one, by=reviewer, text="oracle", base_revision=1)
    result = checked(changed, reviewer)
    assert (result.state, result.cause) == ("failed", {})


def test_expectation_refuses_what_demands_nothing(ada, reviewer, subtests):
    for given, field in [
        ({"target": "text", "text": " "}, "text"),
        ({"target": "text", "text": "x"}, "text"),
        ({"target": "text", "text": "words", "section": "identity"}, "section"),
        ({"target": "section", "section": "basement"}, "section"),
        ({"target": "memory", "item_type": "thought", "item_id": "1"}, "item_type"),
        ({"target": "memory"}, "item_type"),
        ({"target": "memory", "requirement": "absent"}, "item_type"),
    ]:
        with subtests.test(given=given, field=field):
            with pytest.raises(Invalid) as refused:
                expect(ada, reviewer, **given)
            assert refused.value.field == field


def run_jobs() -> None:
    streams_publish()
    embed_pending_rows()
    checks_queue()
    for job in Job.objects.filter(handler="expectation_check", status="queued"):
        assert job_run(job.pk) == "done", Job.objects.get(pk=job.pk).error


def test_expectations_are_checked_after_changes_and_not_after_prompts(ada, billing, reviewer, settings):
    one = expect(ada, reviewer, **about(billing))
    run_jobs()
    assert one.results.get().state == "passed"
    checks = one.results.get().checks
    run_jobs()
    assert one.results.get().checks == checks, "nothing has changed since"
    fact_invalidate(fact=billing, by=reviewer, reason="Wrong.")
    ExpectationWatch.objects.update(duration_ms=0)
    streams_publish()
    assert checks_queue() == 1
    assert checks_queue() == 0, "one job for whatever came"
    run_jobs()
    result = one.results.get(is_current=True)
    assert (result.state, result.cause["object_id"]) == ("failed", str(billing.pk))
    told = Change.objects.filter(kind__in=["expectation.broken", "expectation.mended"], object_id=str(one.pk))
    assert [change.details for change in told] == [{"state": "failed"}]


def test_expectation_check_whose_worker_is_killed_leaves_one_result(ada, billing, reviewer):
    one = expect(ada, reviewer, **about(billing))
    run_jobs()
    fact_invalidate(fact=billing, by=reviewer, reason="Wrong.")
    ExpectationWatch.objects.update(duration_ms=0)
    streams_publish()
    assert checks_queue() == 1
    job = Job.objects.get(handler="expectation_check")
    # As a worker leaves it that was killed before the transaction of the effect.
    past = clock.now() - timedelta(minutes=5)
    Job.objects.filter(pk=job.pk).update(status="running", attempts=1, started_at=past, next_attempt_at=past)
    assert job_run(job.pk) == "done"
    assert job_run(job.pk) == "not ours"
    assert [each.state for each in one.results.all()] == ["failed", "passed"]
    assert Change.objects.filter(kind="expectation.broken").count() == 1


def test_expectations_command_has_an_exit_code(ada, billing, reviewer):
    def run(*more: str) -> tuple[int, str]:
        out = StringIO()
        try:
            call_command("expectations", "run", "ada", *more, stdout=out)
        except SystemExit as left:
            return int(left.code or 0), out.getvalue()
        return 0, out.getvalue()

    assert run()[0] == 2, "nothing was checked"
    one = expect(ada, reviewer, **about(billing))
    assert run()[0] == 0
    fact_invalidate(fact=billing, by=reviewer, reason="Wrong.")
    code, said = run("--format", "junit")
    assert code == 1
    assert "<failure" in said
    assert "fact.invalidated" in said
    Expectation.objects.filter(pk=one.pk).update(request={**one.request, "profile": "gone"})
    code, said = run("--format", "json")
    assert (code, json.loads(said)["state"]) == (2, "error")


def test_expectations_over_http(api, ada, billing, bob, actor_token, all_scopes_token):
    people, token, narrow = api.as_person(bob), api.as_token(all_scopes_token), api.as_token(actor_token)
    assert narrow.get("/expectations").status_code == 403
    assert token.get("/expectations").json() == {"items": [], "next": None}
    assert token.post("/expectations/run", {}).json()["state"] == "error", "none is no pass"
    demand = {"request": {"input": QUESTION}, "requirement": "present", "target": "memory", **about(billing)}
    assert token.post("/expectations", demand).status_code == 403
    made = people.post("/expectations", demand, query={"agent": "ada"})
    assert made.status_code == 201
    assert made.json()["state"] == "passed"
    ran = token.post("/expectations/run", {}).json()
    assert (ran["state"], ran["total"], ran["passed"]) == ("passed", 1, 1)
    one = f"/expectations/{made.json()['id']}"
    changed = people.request(
        "PATCH", one, body={"requirement": "absent", "base_revision": 1}, query={"agent": "ada"}
    ).json()
    assert (changed["state"], changed["revision"]) == ("failed", 2)
    assert token.post("/expectations/run", {}).json()["state"] == "failed"
    assert [each["state"] for each in token.get("/expectations", {"state": "failed"}).json()["items"]] == ["failed"]
    assert len(token.get(f"{one}/results").json()["items"]) == 2
    assert people.request("DELETE", one, query={"agent": "ada"}).status_code == 204
    assert token.get(one).json()["active"] is False


def test_expectation_of_a_run_asks_what_the_run_asked(api, ada, billing, bob):
    run = make_run(ada, Principal.of_user(bob), QUESTION, budget=900)
    demand = {"run": str(run.pk), "requirement": "present", "target": "text", "text": "PostgreSQL"}
    made = api.as_person(bob).post("/expectations", demand, query={"agent": "ada"}).json()
    assert made["state"] == "passed"
    assert (made["request"]["budget"], made["request"]["input"]) == (900, QUESTION)


def test_expectation_that_was_stored_without_a_memory_does_not_pass(ada, billing, reviewer):
    one = expect(ada, reviewer, "absent", **about(billing))
    Expectation.objects.filter(pk=one.pk).update(item_type="", item_id="")
    assert (checked(one, reviewer).state, checked(one, reviewer).detail) == (
        "error",
        "The expectation names no memory.",
    )


def test_expectation_of_the_actor_asks_nothing_that_the_subconscious_was_asked(api, ada, billing, charlie):
    """Readers of the actor's expectations would read the question."""
    run = make_run(ada, make_principal(ada, persona="subconscious"), "What does nobody know?")
    caller = api.as_person(charlie)
    demand = {"run": str(run.pk), "requirement": "present", "target": "section", "section": "identity"}
    refused = caller.post("/expectations", demand, query={"agent": "ada"})
    assert (refused.status_code, refused.json()["field"]) == (422, "persona")
    assert not Expectation.objects.exists()
    made = caller.post("/expectations", {**demand, "persona": "subconscious"}, query={"agent": "ada"})
    assert (made.status_code, made.json()["persona"]) == (201, "subconscious")


def test_expectations_are_checked_by_the_blast_radius_before_a_decision(ada, billing, bob, reviewer):
    kept = expect(ada, reviewer, **about(billing))
    expect(ada, reviewer, target="section", section="identity")
    expect(ada, reviewer, "absent", target="text", text="MariaDB")
    hidden = expect(ada, Principal.of_system("tests"), **about(billing), persona="subconscious")
    change = fact_overrides(billing, "The billing service uses the database MariaDB.")
    found = impact_of(agent=ada, overrides=change, by=reviewer).expectations
    assert (found.total, len(found.checks), len(found.broken)) == (3, 3, 2)
    assert {check.after.outcome.code for check in found.broken} == {"replaced", "text_found"}
    assert not found.errors
    assert hidden not in [check.expectation for check in found.broken]
    page = signed_in(bob).get(f"/agents/ada/context/blast/?fact={billing.pk}")
    assert b"Breaks" in page.content
    assert b"1 of 3" in page.content
    pair = signed_in(bob).get(f"/agents/ada/context/blast/?fact={billing.pk}&expectation={kept.pk}")
    assert b"It would be retired." in pair.content
    Expectation.objects.filter(pk=kept.pk).update(request={**kept.request, "profile": "gone"})
    found = impact_of(agent=ada, overrides=change, by=reviewer).expectations
    assert (len(found.broken), len(found.errors)) == (1, 1)


def test_expectation_asks_for_its_project(ada, billing, reviewer):
    own = make_fact(ada, "The billing service of the Apollo project uses DuckDB.", reviewer, project="apollo")
    inside = expect(ada, reviewer, request=request_of(QUESTION, project="apollo"), **about(own))
    outside = expect(ada, reviewer, **about(own))
    assert checked(inside, reviewer).passed
    assert checked(outside, reviewer).state == "failed"


def kept(expectation: Expectation) -> ExpectationResult:
    return ExpectationResult.objects.get(expectation=expectation, is_current=True)


def test_expectation_follows_the_registry_of_subjects(ada, system, reviewer):
    fact = make_fact(ada, "The cluster runs on Kubernetes 1.31 for billing.", system, subject="k8s")
    one = expect(
        ada, reviewer, "only_of_subject", request=request_of("What does the cluster run for billing?"), **about(fact)
    )
    assert checked(one, reviewer).code == "alone"
    other = make_fact(ada, "The cluster for billing has nine nodes on Kubernetes.", system, subject="Kubernetes")
    result = checked(one, reviewer)
    assert (result.state, result.code) == ("failed", "not_alone"), result.detail
    assert str(other.pk) in result.detail
    # A person says that these are two things after all, by the facts.
    subject_split(subject=other.subject_alias.subject, by=reviewer, facts=[other.pk], name="Kubernetes in billing")
    assert checked(one, reviewer).code == "alone"


@pytest.mark.parametrize("stops", ["embedder", "profile", "memory"])
def test_expectation_that_nothing_can_check_passes_none(ada, billing, reviewer, monkeypatch, stops):
    wanted = {
        "present": expect(ada, reviewer, **about(billing)),
        "only": expect(ada, reviewer, "only_of_subject", **about(billing)),
        "absent": expect(ada, reviewer, "absent", target="text", text="no such words anywhere"),
        "section": expect(ada, reviewer, target="section", section="identity"),
    }
    fine = expect(ada, reviewer, target="section", section="frame", request=request_of("Hello!"))
    for one in (*wanted.values(), fine):
        assert checked(one, reviewer).passed
    if stops == "embedder":
        monkeypatch.setattr(type(embedder_named(configured_name())), "embed_query", _unavailable)
        # As a minute after the first check.
        monkeypatch.setattr(query_prefetch, "_recent", RecentQueries(max_size=1, seconds=0))
    elif stops == "profile":
        ids = [one.pk for one in wanted.values()]
        Expectation.objects.filter(pk__in=ids).update(request={**wanted["absent"].request, "profile": "gone"})
    else:
        # As a broken import would leave it: no target can be looked up by it.
        ids = [one.pk for one in wanted.values()]
        Expectation.objects.filter(pk__in=ids).update(target="memory", item_type="fact", item_id="no uuid")
    expectations_verify(agent=ada, by=reviewer)
    assert {name: kept(one).state for name, one in wanted.items()} == dict.fromkeys(wanted, "error")
    assert kept(fine).passed, "what stops one stops no other"
    assert expectation_totals(list(expectations_of(ada, reviewer))).state == "error"


def _unavailable(self: object, text: str) -> None:
    raise RuntimeError("The model's file is broken.")


def test_expectation_of_absence_waits_for_the_vectors(ada, billing, reviewer):
    hidden = make_fact(ada, "Ledger rows land in a warehouse at night.", reviewer, subject="ledger")
    embed_pending_rows()
    by_id = expect(ada, reviewer, "absent", **about(hidden))
    by_text = expect(ada, reviewer, "absent", target="text", text="in a warehouse")
    alone = expect(ada, reviewer, "only_of_subject", **about(billing))
    other = make_fact(ada, "Zebra stripes are painted over there.", reviewer, subject="billing")
    SearchItem.objects.filter(item_id__in=[str(hidden.pk), str(other.pk)]).update(status="failed", embedding=None)
    expectations_verify(agent=ada, by=reviewer)
    for one in (by_id, by_text, alone):
        assert kept(one).state == "error", one
        assert "vector" in kept(one).detail
    SearchItem.objects.filter(item_id__in=[str(hidden.pk), str(other.pk)]).update(status="pending")
    assert checked(by_id, reviewer).passed
    assert checked(by_text, reviewer).passed


def test_expectation_without_a_judge_does_not_pass_a_contradiction(ada, billing, reviewer, system, settings):
    settings.JUDGE = "none"
    one = expect(ada, reviewer, "only_of_subject", **about(billing))
    assert checked(one, reviewer).passed
    fact_learn(
        agent=ada,
        content="The billing service uses the database MariaDB.",
        subject="billing",
        by=system,
        category="technical",
        importance=0.8,
    )
    assert checked(one, reviewer).code == "not_alone"


def test_expectations_of_an_erased_agent_pass_nowhere(ada, billing, api, bob, reviewer, charlie):
    one = expect(ada, reviewer, "absent", target="text", text="no such words anywhere")
    assert checked(one, reviewer).passed
    agent_erase(agent=ada, by=Principal.of_user(charlie), reason="Asked for.")
    assert not ExpectationResult.objects.exists()
    for action in ("run", "list"):
        with pytest.raises(CommandError) as refused:
            call_command("expectations", action, "ada")
        assert refused.value.returncode == 2
    assert api.as_person(bob).post("/expectations/run", {}, query={"agent": "ada"}).status_code == 404
    assert checks_queue() == 0


def test_expectation_pass_of_days_ago_is_no_pass(ada, billing, reviewer, api, bob):
    one = expect(ada, reviewer, **about(billing))
    assert checked(one, reviewer).passed
    ExpectationResult.objects.update(checked_at=clock.now() - timedelta(days=2))
    found = list(expectations_of(ada, reviewer))
    assert (expectation_totals(found).unchecked, expectation_totals(found).state) == (1, "error")
    people = api.as_person(bob)
    for state, number in (("passed", 0), ("unchecked", 1)):
        page = people.get("/expectations", {"agent": "ada", "state": state}).json()
        assert len(page["items"]) == number
    with pytest.raises(SystemExit) as left:
        call_command("expectations", "list", "ada", stdout=StringIO())
    assert left.value.code == 2


def test_expectation_says_what_of_the_past_cannot_be_rebuilt(ada, billing, reviewer, system):
    """Working memory is not kept: a change of it is named where it is the only one that is meant, else nothing is."""
    request = request_of(QUESTION, session_id="desk")
    one = expect(ada, reviewer, "absent", request=request, target="text", text="a zebra crossing")
    assert checked(one, reviewer).passed
    agent = make_principal(ada)
    working_item_add(agent=ada, session_id="desk", text="Mind a zebra crossing.", by=agent)
    make_fact(ada, "A thing is painted green.", reviewer)
    result = checked(one, reviewer)
    assert (result.state, result.cause["kind"]) == ("failed", "working.changed")
    working_clear(agent=ada, session_id="desk", by=agent)
    assert checked(one, reviewer).passed
    working_item_add(agent=ada, session_id="desk", text="Mind a zebra crossing.", by=agent)
    working_item_add(agent=ada, session_id="desk", text="And a lion.", by=agent)
    cause = checked(one, reviewer).cause
    assert "kind" not in cause
    assert "the session's earlier working memory is not kept" in cause["note"]
