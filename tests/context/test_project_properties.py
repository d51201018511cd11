"""Nothing of another project, task or user is in a prompt that did not ask for it: a property of random memories.

PROJECT_STORES sets how many stores are tried, as in
`PROJECT_STORES=1000 .venv/bin/python -m pytest tests/context/test_project_properties.py`.
"""

import json
import os
from contextlib import suppress

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context.engine.analysis.profiles import BUILT_IN
from context.engine.analysis.request import ContextRequest
from context.services.agent_settings import context_pin
from context.services.context import context_assemble
from identity.principal import Principal
from memory.models import Event, Keys, LoopSummary, ProjectScope, keys_of
from memory.services.decisions import decision_record, decision_update
from memory.services.episodes import episode_append, episode_close, episode_open
from memory.services.events import OtherProject, events_record
from memory.services.facts import fact_edit, fact_learn
from memory.services.loops import loop_close, loop_summarise
from memory.services.procedures import procedure_create, procedure_update
from memory.services.working_memory import working_item_add, working_set
from nousweb.lib import clock
from nousweb.lib.errors import Invalid

STORES = int(os.environ.get("PROJECT_STORES", "12"))
PROJECTS = st.sampled_from(["", "atlas", "borealis", "Atlas"])
TASKS = st.sampled_from(["", "", "fix", "plan"])
USERS = st.sampled_from(["", "", "mia", "Mia", "noah"])
KEYS = st.fixed_dictionaries({"project": PROJECTS, "task": TASKS, "user": USERS})
TYPES = ("fact", "fact", "core", "event", "event", "episode", "decision", "procedure")
MEMORIES = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(TYPES),
            "keys": KEYS,
            "moved": st.none() | st.none() | KEYS,
            "pinned": st.booleans(),
            "said": st.sampled_from(["failed", "did not fail", "failed twice"]),
            "loop": st.sampled_from(["one", "two", "s"]),
            "kind": st.sampled_from(["user_input", "tool_result"]),
        }
    ),
    min_size=2,
    max_size=9,
)
ASKED = st.fixed_dictionaries(
    {
        "project": PROJECTS,
        "task": TASKS,
        "user": USERS,
        "include_projects": st.sampled_from([(), (), ("borealis",), ("atlas", "borealis")]),
        "all_projects": st.sampled_from([False, False, False, True]),
        "input": st.sampled_from(["Why did the ledger export fail?", "what happened to the ledger export yesterday"]),
        "budget": st.none() | st.integers(2_000, 9_000),
        "profile": st.sampled_from([profile.profile_id for profile in BUILT_IN.values()]),
        "past": st.booleans(),
    }
)
WORKING = st.none() | KEYS


def store(agent, memories, working, system, reviewer):
    """Store them; returns the keys of each by a word of its own."""
    words = {}
    for place, one in enumerate(memories):
        word = f"zq{place}word"
        keys, moved = one["keys"], one["moved"]
        text = f"The ledger export {one['said']}, says {word}."
        row = None
        match one["type"]:
            case "fact" | "core":
                category = "technical" if one["type"] == "fact" else "preference"
                learned = fact_learn(agent=agent, content=text, subject="ledger", category=category, by=system, **keys)
                row = learned.fact
                if word not in row.content:
                    continue
                if moved:
                    fact_edit(fact=row, by=system, **moved)
            case "decision":
                row = decision_record(agent=agent, description=text, by=system, **keys)
                if moved:
                    decision_update(decision=row, by=system, **moved)
            case "procedure":
                row = procedure_create(agent=agent, name="Ledger export", description=text, by=system, **keys)
                if moved:
                    procedure_update(procedure=row, by=system, **moved)
            case "episode":
                row = episode_open(agent=agent, title="The ledger export", by=system, **keys)
                held = [event.pk for event in Event.objects.filter(agent=agent)]
                for event in held:
                    with suppress(Invalid):
                        episode_append(episode=row, event_ids=[event], by=system)
                row, moved = episode_close(episode=row, summary=None if held else text, by=system), None
            case "event":
                draft = {"kind": one["kind"], "content": text, "loop_id": one["loop"], **keys}
                try:
                    (recorded,) = events_record(agent=agent, events=[draft], by=system)
                except OtherProject:
                    continue
                row, moved = recorded.event, None
                keys = keys_of(row)
        words[word] = moved or keys
        if one["pinned"]:
            context_pin(agent=agent, item_type=item_type(row), item_id=str(row.pk), by=reviewer)
    for loop in LoopSummary.objects.filter(agent=agent):
        loop_close(agent=agent, loop_id=loop.loop_id, by=system)
        loop_summarise(loop.pk)
    if working:
        working_set(
            agent=agent, session_id="s", by=system, task="Do zqtask.", project=working["project"],
            task_key=working["task"], user=working["user"],
        )  # fmt: skip
        working_item_add(agent=agent, session_id="s", text="Mind zqitem.", by=system, user=working["user"])
        words |= {"zqtask": working, "zqitem": working}
    return words


def item_type(row):
    return row._meta.model_name


def may_show(asked, project, task, user):
    """Whether a request may show what carries these keys: said again, plainly, beside the product's own words."""
    if user not in ("", asked["user"]):
        return False
    if asked["all_projects"] or (not project and not task):
        return True
    if task:
        return task == asked["task"] and project in ("", asked["project"])
    return project in (asked["project"], *asked["include_projects"])


@pytest.mark.django_db
@settings(
    max_examples=STORES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(memories=MEMORIES, working=WORKING, asked=ASKED)
def test_prompts_show_nothing_of_other_projects_tasks_or_users(ada, system, bob, memories, working, asked):
    with transaction.atomic():
        words = store(ada, memories, working, system, Principal.of_user(bob))
        past = asked["past"] and not working
        given_request = {name: value for name, value in asked.items() if name != "past"}
        request = ContextRequest("s", **given_request, as_of=clock.now() if past else None, dry_run=True)
        record = context_assemble(request, agent=ada, by=system)
        assert not record.failed_sections
        foreign = [word for word, keys in words.items() if not may_show(asked, **keys)]
        assert not [word for word in foreign if word in record.system_prompt]
        explained = context_assemble(
            ContextRequest("s", **given_request, dry_run=True, explain=True), agent=ada, by=system
        )
        assert past or explained.system_prompt == record.system_prompt
        for one in explained.candidates:
            assert one["user"] in ("", asked["user"])
            if one["verdict"] == "included":
                assert may_show(asked, one["project"], one["task"], one["user"])
        # Not even an explanation knows of other users.
        told = json.dumps([explained.candidates, explained.decisions])
        others = [word for word, keys in words.items() if keys["user"] not in ("", asked["user"])]
        assert not [word for word in others if word in told]
        transaction.set_rollback(True)


@given(asked=ASKED, keys=KEYS)
def test_scope_shows_what_requests_may_show(asked, keys):
    names = ("project", "task", "include_projects", "all_projects", "user")
    scope = ProjectScope(**{name: asked[name] for name in names})
    assert scope.shows(Keys(**keys)) == may_show(asked, **keys)
