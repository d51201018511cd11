"""Expectations: how long 200 take, and whether the change that broke each is named: python -m benchmarks.expectations

- The demo's agent, and an agent for the first conversation of a file in LoCoMo's own format (its turns as events, its
  observations as facts), have 200 expectations each: questions, and for each an item of its prompt that must stay, a
  text that must not be there, or a section. All are checked in this process and the results kept, as the worker does.
- On a third agent 20 changes of 20 kinds are made between two checks, among 200 others that break nothing. Each must
  be named as the one that broke its expectation.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.context_curve import remembered
from benchmarks.locomo import DEFAULT_FILE
from benchmarks.system import RESULTS, System, system

COUNT = 200
MAX_SECONDS = 10.0
OTHERS = 200
ROUNDS = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=DEFAULT_FILE, help="in LoCoMo's own format")
    options = parser.parse_args()
    with system() as running:
        figures: dict[str, Any] = {"demo": _demo(running)}
        if options.file.exists():
            figures["locomo"] = _locomo(running, json.loads(options.file.read_text())[0])
        figures["planted"] = _planted(running)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "expectations.json").write_text(json.dumps(figures, indent=1) + "\n")
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    planted = figures["planted"]
    slow = any(figures[name]["seconds"] > MAX_SECONDS for name in ("demo", "locomo") if name in figures)
    return int(slow or planted["named"] < planted["planted"])


def _demo(running: System) -> dict[str, Any]:
    from context.models import ContextRun
    from identity.models import Agent
    from memory.models import Fact
    from nousweb.demo.demo_loader import demo_load

    demo_load()
    running.embed_all()
    agent = Agent.objects.get(slug="marlow")
    asked = list(dict.fromkeys(ContextRun.objects.filter(agent=agent).values_list("input", flat=True)))
    facts = Fact.objects.filter(agent=agent, persona="actor").order_by("pk").values_list("content", flat=True)
    return _timed(agent, [*asked, *(f"What is it about: {text}" for text in facts)])


def _locomo(running: System, sample: dict[str, Any]) -> dict[str, Any]:
    from identity.models import Agent

    memory = remembered(running, sample)
    running.embed_all()
    return _timed(Agent.objects.get(slug=memory.name), [one["question"] for one in memory.questions])


def _timed(agent: Any, questions: Sequence[str]) -> dict[str, Any]:
    """Seconds of a check of COUNT expectations about these questions, the median of ROUNDS."""
    from context.expectations.services import expectation_totals, expectations_verify
    from identity.principal import Principal

    by = Principal.of_system("benchmark")
    for number, (question, demand) in enumerate(_demands(agent, questions, by)):
        if number == COUNT:
            break
        _expect(agent, by, question, demand)
    seconds, busy = [], []
    for _ in range(ROUNDS):
        began, began_busy = time.perf_counter(), time.process_time()
        found = expectations_verify(agent=agent, by=by)
        seconds.append(time.perf_counter() - began)
        busy.append(time.process_time() - began_busy)
    totals = expectation_totals(found)
    return {
        "expectations": totals.total,
        "questions": len({one.input for one in found}),
        "passed": totals.passed,
        "errors": totals.errors + totals.unchecked,
        "seconds": round(sorted(seconds)[ROUNDS // 2], 2),
        "busy_seconds": round(sorted(busy)[ROUNDS // 2], 2),
    }


def _expect(agent: Any, by: Any, question: str, demand: dict[str, str]) -> None:
    from context.expectations.services import expectation_create, request_of

    expectation_create(agent=agent, by=by, request=request_of(question), **demand)


def _demands(agent: Any, questions: Sequence[str], by: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """One for each question while there are enough questions: what is in its prompt today must stay, by turns what is
    not must not come in. The same again with sections, where there are too few."""
    from context.engine.analysis.request import ContextRequest
    from context.services.context import context_assemble
    from memory.types import MEMORY_TYPES

    for number, question in enumerate(questions):
        record = context_assemble(ContextRequest("expectation", question, dry_run=True), agent=agent, by=by)
        items = [item for section in record.sections for item in section["items"] if item["type"] in MEMORY_TYPES]
        if number % 5 == 4 or not items:
            yield question, {"requirement": "absent", "target": "text", "text": "no prompt of this agent says so"}
        else:
            item = items[number % len(items)]
            named = {"item_type": item["type"], "item_id": item["id"]}
            yield question, {"requirement": "present", "target": "memory", **named}
    for number in range(COUNT):
        question = f"{questions[number % len(questions)]} And what else, number {number}?"
        yield question, {"requirement": "present", "target": "section", "section": "frame"}


def _planted(running: System) -> dict[str, Any]:
    from django.contrib.auth.models import Group, User
    from django.test import override_settings

    from benchmarks.planted_changes import Garden
    from context.expectations.services import expectation_totals, expectations_verify
    from context.models import ExpectationResult
    from identity.models import Agent
    from identity.principal import Principal
    from identity.services.agents import agent_create
    from memory.services.events import events_record

    person = User.objects.create_user("gardener")
    person.groups.set(Group.objects.all())
    by, system_by = Principal.of_user(person), Principal.of_system("benchmark")
    agent = agent_create(slug="garden", name="Garden", kind="knight", prompt="You are a gardener.", by=system_by)
    with override_settings(FOUR_EYES=False):
        plants = Garden(agent, by).plants()
        running.embed_all()
        before = expectation_totals(expectations_verify(agent=agent, by=by)).passed
        named = {}
        for number, plant in enumerate(plants):
            for other in range(OTHERS // len(plants)):
                text = f"Number {number}, {other}."
                events = [{"kind": "user_input", "content": text, "loop_id": f"loop {number}"}]
                events_record(agent=agent, events=events, by=system_by)
            named[plant.expectation.pk] = plant.apply()
    running.embed_all()
    began = time.perf_counter()
    expectations_verify(agent=Agent.objects.get(pk=agent.pk), by=by)
    seconds = time.perf_counter() - began
    broken = ExpectationResult.objects.filter(agent=agent, is_current=True, state="failed")
    causes = {one.expectation_id: (one.code, one.cause) for one in broken}
    found = {key: (cause.get("kind"), cause.get("object_id")) for key, (_, cause) in causes.items()}
    right = sum(found.get(key) == wanted for key, wanted in named.items())
    return {
        "planted": len(plants),
        "others": OTHERS,
        "passed_before": before,
        "broken": len(found),
        "named": right,
        "not_named": [[*wanted, str(causes.get(key))] for key, wanted in named.items() if found.get(key) != wanted],
        "seconds": round(seconds, 2),
    }


if __name__ == "__main__":
    raise SystemExit(main())
