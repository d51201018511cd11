"""Projects and tasks in a context: what a request names, shares of the tiers, explanations, changes considered."""

import random

import pytest

from context.engine.analysis.request import ContextRequest
from context.models import ContextRun
from context.services.context import context_assemble, context_replay
from context.what_if.change_overrides import metadata_overrides
from context.what_if.impact import impact_of
from memory.models import Fact, MemoryReview
from memory.services.facts import fact_edit
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.services.search_index.writer import index_put
from memory.types import entry_of
from nousweb.lib.token_estimate import estimate_tokens
from tests.factories import make_fact, make_run

QUESTION = "Why did the ledger export fail?"
ATLAS, BOREALIS = {"project": "atlas"}, {"project": "borealis"}


def prompt(agent, by, **more):
    return context_assemble(ContextRequest("s", QUESTION, dry_run=True, **more), agent=agent, by=by).system_prompt


def test_request_names_its_project_and_task(api, ada, system, actor_token):
    make_fact(ada, "The ledger export of atlas failed by a full disk.", system, **ATLAS)
    make_fact(ada, "Tim wants the ledger of borealis in cents.", system, category="preference", **BOREALIS)
    client = api.as_token(actor_token)

    def ask(**more):
        return client.post("/context", {"session_id": "s", "input": QUESTION, **more}).json()

    assert "full disk" not in ask()["system_prompt"]
    atlas = ask(project="atlas", task={"key": "fix"})
    assert "full disk" in atlas["system_prompt"]
    assert "cents" not in atlas["system_prompt"]
    (item,) = [item for section in atlas["sections"] for item in section["items"] if item["project"]]
    assert (item["type"], item["project"], item["task"]) == ("fact", "atlas", "")
    both = ask(project="atlas", include_projects=["borealis"])["system_prompt"]
    assert "full disk" in both
    assert "cents" in both
    assert "cents" in ask(all_projects=True)["system_prompt"]
    run = ContextRun.objects.get(pk=atlas["id"])
    assert (run.request["project"], run.request["task"]) == ("atlas", "fix")
    answer = client.post("/context", {"session_id": "s", "input": "?", "project": "at\nlas"})
    assert answer.status_code == 422


def test_explanation_says_where_what_is_left_out_belongs(api, ada, system, actor_token):
    make_fact(ada, "The ledger export of atlas failed by a full disk.", system, **ATLAS, task="fix")
    asked = {"session_id": "s", "input": QUESTION, "explain": True, "project": "borealis"}
    answer = api.as_token(actor_token).post("/context", asked).json()
    assert "full disk" not in answer["system_prompt"]
    (one,) = answer["candidates"]
    assert (one["verdict"], one["reason"]) == ("other_project", "Belongs to task fix of project atlas.")
    assert (one["project"], one["task"], one["scope"]) == ("atlas", "fix", "task")
    assert "task fix of project atlas" in one["hint"]


def test_runs_of_older_versions_open_and_ask_for_global_memory(ada, system, reviewer):
    make_fact(ada, "The ledger export of atlas failed by a full disk.", system, **ATLAS)
    run = make_run(ada, system, QUESTION)
    for name in ("project", "task", "include_projects", "all_projects"):
        del run.request[name]
    run.save()
    again = context_replay(run=run, by=reviewer)
    assert "full disk" not in again.system_prompt
    assert again.request["project"] == ""


def test_the_past_has_the_keys_of_then(ada, system):
    fact = make_fact(ada, "The ledger export of atlas failed by a full disk.", system, **ATLAS)
    core = make_fact(ada, "Tim wants the ledger in cents.", system, category="preference", **ATLAS)
    then = fact.recorded_at.__class__.now(fact.recorded_at.tzinfo)
    for each in (fact, core):
        fact_edit(fact=each, by=system, **BOREALIS)
    now = prompt(ada, system, **ATLAS)
    assert "full disk" not in now
    assert "cents" not in now
    assert "full disk" in prompt(ada, system, **ATLAS, as_of=then)
    assert "cents" in prompt(ada, system, **ATLAS, as_of=then)
    past = prompt(ada, system, **BOREALIS, as_of=then)
    assert "full disk" not in past
    assert "cents" not in past


def test_a_question_is_open_only_where_both_facts_are_seen(ada, system):
    make_fact(ada, "The ledger export runs on PostgreSQL 15.", system, subject="ledger export")
    make_fact(ada, "The ledger export now runs on PostgreSQL 17.", system, subject="ledger export", **ATLAS)
    assert MemoryReview.objects.pending().count() == 1
    assert prompt(ada, system, **ATLAS).count("(contested") == 2
    elsewhere = prompt(ada, system, **BOREALIS)
    assert "PostgreSQL 15" in elsewhere
    assert "contested" not in elsewhere
    assert "PostgreSQL 17" not in elsewhere


@pytest.mark.parametrize(("mode", "shares"), [(None, (0.5, 0.3, 0.2)), ("implement", (0.561, 0.252, 0.187))])
def test_shares_of_the_profile_are_of_the_tiers(ada, system, mode, shares):
    """The knight's shares: task, project and global memory each take about theirs when all have more than fits."""
    told = random.Random(7)
    names = ["".join(told.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(600)]
    drafts = [
        Fact(
            agent=ada, category="technical", importance=0.8, **keys,
            content=" ".join(f"The ledger export failed over {name}." for name in told.sample(names, 11)),
        )
        for keys in ({**ATLAS, "task": "fix"}, ATLAS, {})
        for _ in range(16)
    ]  # fmt: skip
    facts = Fact.objects.bulk_create(drafts)
    index_put(entry_of(fact) for fact in facts)
    embed_pending_rows()
    asked = {"mode": mode, "task": "fix", "profile": "knight_default", "budget": 3000, **ATLAS}
    request = ContextRequest("s", "What is known about why the ledger export failed?", dry_run=True, **asked)
    record = context_assemble(request, agent=ada, by=system)
    assert tuple(record.decisions["policy"]["weights"].values()) == shares
    spent = {"task": 0, "project": 0, "global": 0}
    for section in record.sections:
        if section["tier"] == 3:
            for item in section["items"]:
                tier = "task" if item.get("task") else "project" if item.get("project") else "global"
                spent[tier] += estimate_tokens(item["text"])
    total = sum(spent.values())
    assert total > 2_000
    for tier, share in zip(spent, shares, strict=True):
        assert spent[tier] / total == pytest.approx(share, abs=0.08)
    assert record.fingerprint["tier_counts"]["task"] > record.fingerprint["tier_counts"]["global"]


def test_blast_radius_knows_the_projects_of_requests(ada, system, reviewer):
    fact = make_fact(ada, "The ledger export of atlas failed by a full disk.", system, **ATLAS)
    core = make_fact(ada, "Tim wants the ledger in cents.", system, category="preference", **ATLAS)
    make_run(ada, system, QUESTION, **ATLAS)
    make_run(ada, system, QUESTION, **BOREALIS)
    for each, text in ((fact, "full disk"), (core, "cents")):
        impact = impact_of(agent=ada, overrides=metadata_overrides(each, **BOREALIS), by=reviewer)
        to, away = impact.rows
        assert to.run.request["project"] == "borealis"
        assert [text in piece[1] for piece in to.gained] == [True]
        assert [text in piece[1] for piece in away.lost] == [True]
