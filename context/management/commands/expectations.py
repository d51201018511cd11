"""Checks an agent's expectations, with an exit code for pipelines."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from django.core.management.base import BaseCommand, CommandError

from context.expectations.api import ExpectationOut
from context.expectations.services import (
    ExpectationTotals,
    State,
    expectation_totals,
    expectations_of,
    expectations_verify,
    result_of,
    state_of,
)
from context.models import Expectation, ExpectationResult
from identity.models import Agent, Persona
from identity.principal import Principal
from identity.selectors import agent_get
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib import DomainError

EXIT_CODES = {State.PASSED: 0, State.FAILED: 1, State.ERROR: 2}
NOT_CHECKED = "It was not checked, or not for a day."
WORDS = {State.PASSED: "PASSED", State.FAILED: "FAILED", State.ERROR: "COULD NOT RUN", "": "UNCHECKED"}


class Command(BaseCommand):
    help = (
        "Check what people expect of an agent's memory. Exit code 0: each of at least one has passed; 1: one has"
        " failed; 2: none failed, but one could not run, or there is none."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["run", "list"], help="run checks them now; list shows the last results")
        parser.add_argument("agent", help="the agent's slug")
        parser.add_argument("--persona", choices=Persona.values, help="only those of this persona")
        parser.add_argument("--format", choices=["text", "json", "junit"], default="text")
        parser.add_argument("--out", type=Path, help="a file for it; standard output by default")

    def handle(self, *args: Any, **options: Any) -> None:
        by = Principal.of_command()
        try:
            agent = agent_get(options["agent"], Principal.of_command())
            found = self._found(agent, by, options)
        except DomainError as error:
            raise CommandError(error.detail, returncode=2) from error
        totals = expectation_totals(found)
        written = {"text": _text, "json": _json, "junit": _junit}[options["format"]](agent, found, totals)
        if options["out"]:
            try:
                options["out"].write_text(written + "\n", encoding="utf-8")
            except OSError as error:
                raise CommandError(f"{options['out']}: {error.strerror}", returncode=2) from error
        else:
            self.stdout.write(written)
        if code := EXIT_CODES[State(totals.state)]:
            raise SystemExit(code)

    def _found(self, agent: Agent, by: Principal, options: dict[str, Any]) -> list[Expectation]:
        if options["action"] == "run":
            # Newly imported memories have no vectors yet, and there may be no worker to embed them.
            embed_pending_rows()
            return expectations_verify(agent=agent, by=by, persona=options["persona"])
        rows = expectations_of(agent, by).active()
        return list(rows.filter(persona=options["persona"]) if options["persona"] else rows)


def _text(agent: Agent, found: list[Expectation], totals: ExpectationTotals) -> str:
    lines = []
    for one in found:
        result, state = result_of(one), state_of(one)
        lines.append(f"{WORDS[state]}  “{one.input[:80]}”: {_demand(one)}")
        if result is not None and state in (State.FAILED, State.ERROR):
            lines.append(f"    {result.detail}")
            if cause := _cause(result):
                lines.append(f"    {cause}")
    if not found:
        return f"{agent.slug} has no active expectations: nothing was checked."
    parts = [f"{totals.passed} passed", f"{totals.failed} failed", f"{totals.errors} could not run"]
    if totals.unchecked:
        parts.append(f"{totals.unchecked} unchecked")
    return "\n".join([*lines, f"{totals.total} expectations: {', '.join(parts)}."])


def _json(agent: Agent, found: list[Expectation], totals: ExpectationTotals) -> str:
    items = [ExpectationOut.from_orm(one).model_dump(mode="json") for one in found]
    figures = {
        "agent": agent.slug,
        "state": str(totals.state),
        "total": totals.total,
        "passed": totals.passed,
        "failed": totals.failed,
        "errors": totals.errors + totals.unchecked,
    }
    return json.dumps({**figures, "items": items}, ensure_ascii=False, indent=2)


def _junit(agent: Agent, found: list[Expectation], totals: ExpectationTotals) -> str:
    errors = totals.errors + totals.unchecked
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name={_attribute(f"expectations of {agent.slug}")} tests="{totals.total}"'
        f' failures="{totals.failed}" errors="{errors}">',
    ]
    for one in found:
        result, state = result_of(one), state_of(one)
        name = _attribute(f"{one.input[:200]}: {_demand(one)}")
        lines.append(f'  <testcase classname={_attribute(f"expectations.{agent.slug}")} name={name} id="{one.pk}">')
        if result is None or state in (State.ERROR, ""):
            lines.append(f"    <error message={_attribute(result.detail if result and state else NOT_CHECKED)}/>")
        elif not result.passed:
            said = escape(_xml(_cause(result)))
            lines.append(
                f"    <failure message={_attribute(result.detail)} type={_attribute(result.code)}>{said}</failure>"
            )
        lines.append("  </testcase>")
    return "\n".join([*lines, "</testsuite>"])


def _demand(one: Expectation) -> str:
    return f"{one.get_target_display().lower()} {one.target_words[:120]!r} {one.get_requirement_display().lower()}"


def _cause(result: ExpectationResult) -> str:
    cause = result.cause
    if cause.get("kind"):
        return f"By {cause['kind']} {cause['object_id']} of {cause['by'] or 'somebody unknown'} at {cause['at']}."
    return str(cause.get("note", ""))


def _attribute(text: str) -> str:
    return quoteattr(_xml(text))


def _xml(text: str) -> str:
    """`text` without characters that XML cannot hold."""
    return "".join(
        char if char in "\t\n\r" or (ord(char) >= 0x20 and not 0xFFFE <= ord(char) <= 0xFFFF) else "�" for char in text
    )
