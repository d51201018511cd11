"""Impact of a change: logged requests assembled with it and without it. Writes nothing."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from context.engine.analysis.request import ContextRequest, request_resolve
from context.engine.assembly.prompt_section import line_parts
from context.engine.context_record import ContextRecord
from context.engine.overrides import PROPOSED, Overrides
from context.engine.pipeline import build_record, context_inputs_load, context_inputs_with
from context.expectations.check_runner import ImpactCheck, expectations_impact
from context.expectations.policy import VIEW
from context.expectations.services import State, expectation_get, expectations_of, personas_of
from context.models import ASSEMBLE, RECENT, ContextRun, Expectation
from context.selectors import run_get
from identity.models import Agent, Persona
from identity.principal import Principal
from memory.persona import VIEWS, persona_memory
from memory.services.subjects.changes import subjects_merged_in_dry_run
from memory.types import MEMORY_TYPES
from nousweb.lib import clock
from nousweb.lib.errors import Invalid, NotFound
from nousweb.lib.line_differences import Budget, line_spans


@dataclass(frozen=True, slots=True)
class ExpectationImpact:
    """Of `total` active expectations, `checks` were made before time ran out.

    `broken` ones pass today and would fail, `mended` ones the reverse; `errors` could not be checked, with the change
    or without it; `failing` ones fail with both.
    """

    total: int
    checks: tuple[ImpactCheck, ...] = ()
    broken: tuple[ImpactCheck, ...] = ()
    mended: tuple[ImpactCheck, ...] = ()
    errors: tuple[ImpactCheck, ...] = ()
    failing: int = 0

    @property
    def cut_short(self) -> bool:
        return len(self.checks) < self.total

    @property
    def holding(self) -> str:
        """How many of those that were checked hold with the change, in words; "" without any."""
        number, of = sum(one.states[1] == State.PASSED for one in self.checks), len(self.checks)
        share = "all" if number == of > 1 else f"{number:,} of"
        words = f"{share} {of:,} expectation{'' if of == 1 else 's'}{' checked' * self.cut_short} would hold"
        return words if of else ""


NO_EXPECTATIONS = ExpectationImpact(0)


def expectation_impact(
    *, agent: Agent, overrides: Overrides, by: Principal, seconds: float, base: Overrides | None = None
) -> ExpectationImpact:
    """Check the active expectations that `by` may see, with `overrides` and without, or with `base`. No check starts
    after `seconds`. Empty for callers who may not see expectations."""
    if not by.may(VIEW):
        return NO_EXPECTATIONS
    rows = list(expectations_of(agent, by).active())
    until = time.monotonic() + seconds
    checks: list[ImpactCheck] = []
    for check in _checks(agent, rows, overrides, by, base):
        checks.append(check)
        if time.monotonic() >= until:
            break
    return ExpectationImpact(
        total=len(rows),
        checks=tuple(checks),
        broken=tuple(one for one in checks if one.states == (State.PASSED, State.FAILED)),
        mended=tuple(one for one in checks if one.states == (State.FAILED, State.PASSED)),
        errors=tuple(one for one in checks if State.ERROR in one.states),
        failing=sum(one.states == (State.FAILED, State.FAILED) for one in checks),
    )


def impact_of_expectation(*, agent: Agent, key: UUID, overrides: Overrides, by: Principal) -> ImpactCheck:
    """The impact of a change on one expectation. Raises NotAllowed, and NotFound if it cannot be checked."""
    check = next(_checks(agent, [expectation_get(agent, by, key)], overrides, by))
    if check.before.record is None or check.after.record is None:
        raise NotFound(f"This expectation could not be checked: {check.after.outcome.detail}")
    return check


def _checks(
    agent: Agent, rows: Sequence[Expectation], overrides: Overrides, by: Principal, base: Overrides | None = None
) -> Iterator[ImpactCheck]:
    for persona in personas_of(by):
        own = [row for row in rows if row.persona == persona]
        if own:
            yield from expectations_impact(VIEWS[persona](agent), own, overrides, base)


MAX_RUNS = 50
DEFAULT_RUNS = 20
MAX_SECONDS = 8.0
MAX_QUOTE = 120
Piece = tuple[str, str]
NotSent = tuple[str, int, int]
"""A section that leaves out a part of the change: its label, the tokens left out, and the tokens of the whole."""


@dataclass(frozen=True, slots=True)
class ImpactRow:
    """The effect of a change on a logged request, or on that of an expectation, assembled today. Pieces are (type,
    text) as the prompt shows them.

    `moved` pieces stay in the prompt, in another section: the text, and the labels of both sections.
    `not_sent` are the sections that would leave out a part of the change.
    """

    run: ContextRun | Expectation
    before: str
    after: str
    tokens_before: int
    tokens_after: int
    gained: tuple[Piece, ...]
    lost: tuple[Piece, ...]
    moved: tuple[tuple[str, str, str], ...] = ()
    not_sent: tuple[NotSent, ...] = ()

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def tokens_change(self) -> int:
        return self.tokens_after - self.tokens_before

    @property
    def loses(self) -> bool:
        """Whether it has fewer memories."""
        lost, gained = (_marks_by_text(pieces).keys() for pieces in (self.lost, self.gained))
        return len(lost - gained) > len(gained - lost)

    @property
    def words(self) -> tuple[str, ...]:
        """What happens to each memory of the prompt, in words; to its mark, where its text stays."""
        lost, gained = (_marks_by_text(pieces) for pieces in (self.lost, self.gained))
        stay = {text: (mark, gained[text]) for text, mark in lost.items() if text in gained}
        gone, come = ([text for text in side if text not in stay] for side in (lost, gained))
        found = [f"{_quoted(text)} moves from {was} to {now}" for text, was, now in self.moved]
        if len(gone) == len(come) == 1:
            found.append(_replaced(gone[0], come[0]))
        else:
            found += [f"{_quoted(text)} is added" for text in come] + [f"{_quoted(text)} is left out" for text in gone]
        for text, marks in stay.items():
            was, is_now = ("contested" in mark for mark in marks)
            verb = "has another" if was == is_now else "loses its" if was else "gets the"
            found.append(f"{_quoted(text)} {verb} mark{'' if was == is_now else ' “contradicted”'}")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Impact:
    """The rows, latest request first. `requested`: how many requests to replay; time may run out before all are.
    `is_week`: they are all requests of the last days that RECENT covers."""

    rows: tuple[ImpactRow, ...]
    requested: int
    is_week: bool = False
    unreadable: int = 0
    expectations: ExpectationImpact = NO_EXPECTATIONS

    @property
    def changed(self) -> tuple[ImpactRow, ...]:
        return tuple(row for row in self.rows if row.changed)

    @property
    def share(self) -> str:
        """Which prompts change, of how many, in words."""
        number, rows = len(self.changed), len(self.rows)
        when = f" of the last {RECENT.days} days" if self.is_week else ""
        prompts = f"{'' if when else 'latest '}prompt{'' if rows == 1 else 's'}{when}{' tried' * self.cut_short}"
        if rows == 1:
            return f"{'the only' if number else 'no'} {prompts}"
        part = "none of the" if not number else "all" if number == rows else f"{number} of the"
        return f"{part} {rows} {prompts}"

    @property
    def verb(self) -> str:
        return "change" if len(self.changed) > 1 else "changes"

    @property
    def losing(self) -> str:
        """How many prompts would lose a memory, in words; "" for none."""
        number = sum(row.loses for row in self.rows)
        return f"{number} would lose a memory" if number else ""

    @property
    def not_sent(self) -> tuple[ImpactRow, ...]:
        """The requests whose prompts would leave out a part of the change."""
        return tuple(row for row in self.rows if row.not_sent)

    @property
    def largest_not_sent(self) -> NotSent | None:
        """The section that would leave out the most tokens."""
        return max((cut for row in self.rows for cut in row.not_sent), key=lambda one: one[1], default=None)

    @property
    def words(self) -> str:
        """What happens to memories in most of the changed prompts, else to their tokens if it is one way; "" where none
        changes."""
        if found := Counter(words for row in self.changed for words in row.words).most_common(2):
            return "; ".join(words for words, number in found if number == found[0][1])
        sizes = sorted(row.tokens_change for row in self.changed)
        if not sizes:
            return ""
        least, most = sorted((abs(sizes[0]), abs(sizes[-1])))
        size = f"{least:,} to {most:,} tokens" if least < most else f"{most:,} token{'' if most == 1 else 's'}"
        is_one_way = sizes[0] * sizes[-1] > 0
        told = f"each gets {size} {'longer' if sizes[0] > 0 else 'shorter'}" if is_one_way else "other lines"
        return f"{told}, with the same memories"

    @property
    def cut_short(self) -> bool:
        return len(self.rows) + self.unreadable < self.requested


def impact_of(*, overrides: Overrides, **more: Any) -> Impact:
    """The impact of one change, as `impacts_of` has it."""
    return impacts_of(changes=[overrides], **more)[0]


def impacts_of(
    *,
    agent: Agent,
    changes: Sequence[Overrides],
    by: Principal,
    last: int = DEFAULT_RUNS,
    seconds: float = MAX_SECONDS,
    base: Overrides | None = None,
    questions: bool = False,
) -> list[Impact]:
    """Assemble the logged requests of the last days (RECENT), or else the latest ones, today without a change, or with
    `base`, and with each of `changes`: at most `last` (at most MAX_RUNS) requests. `questions`: the latest ones of the
    actor, each question once.

    Requests about the past are skipped, since the change is made now. All prompts of a request share the loaded inputs,
    except for a fact that would be searched from now on, which needs another search. The agent's expectations are
    checked the same way. No request starts after `seconds`, and no expectation of all changes after as many more, but
    the first of each. Raises Invalid, NotAllowed.
    """
    if not 1 <= last <= MAX_RUNS:
        raise Invalid(f"n must be between 1 and {MAX_RUNS}.", field="n")
    by.require(ASSEMBLE, agent)
    by.require("context.view_contextrun", agent)
    logged = ContextRun.objects.visible_to(by).filter(agent=agent, as_of=None)
    logged = logged.only("id", "agent_id", "persona", "request", "created_at", "session_id", "input")
    if questions:
        latest = list(logged.filter(persona=Persona.ACTOR).values_list("input", "pk")[:MAX_RUNS])
        logged = logged.filter(pk__in=list(dict(reversed(latest)).values()))
    recent = [] if questions else list(logged.filter(created_at__gte=clock.now() - RECENT)[:last])
    runs = recent or list(logged[:last])
    until = time.monotonic() + seconds
    found: list[list[ImpactRow]] = []
    unreadable = 0
    for run in runs:
        if time.monotonic() >= until:
            break
        try:
            found.append(_rows(agent, run, changes, by, base))
        except (Invalid, NotFound, KeyError):
            # The request has an older format, or its profile was deleted.
            unreadable += 1
    until = time.monotonic() + seconds
    return [
        Impact(
            tuple(rows[place] for rows in found),
            len(runs),
            0 < len(recent) < last,
            unreadable,
            expectation_impact(agent=agent, overrides=change, by=by, seconds=until - time.monotonic(), base=base),
        )
        for place, change in enumerate(changes)
    ]


def impact_of_run(*, agent: Agent, run_id: UUID, overrides: Overrides, by: Principal) -> ImpactRow:
    """The impact of a change on one logged request. Raises NotAllowed, NotFound."""
    by.require(ASSEMBLE, agent)
    return _rows(agent, run_get(agent, by, run_id), [overrides], by)[0]


def records_of(agent: Agent, run: ContextRun, changes: Sequence[Overrides], by: Principal) -> tuple[ContextRecord, ...]:
    """The context of a logged request today, first without a change and then with each of `changes`."""
    view = persona_memory(agent, by, run.persona)
    resolved = request_resolve(view, ContextRequest.of_json(run.request))
    changes = [change.visible_to(view.personas) for change in changes]
    inputs = context_inputs_load(view, resolved, others=[key for change in changes for key in change.metadata])
    records = [build_record(inputs)]
    for change in changes:
        with subjects_merged_in_dry_run(agent, change.merged):
            records.append(build_record(context_inputs_with(view, inputs, change, [*change.metadata]), change))
    return tuple(records)


def _rows(
    agent: Agent, run: ContextRun, changes: Sequence[Overrides], by: Principal, base: Overrides | None = None
) -> list[ImpactRow]:
    bases = [base] if base else []
    before, *after = records_of(agent, run, [*bases, *changes], by)[len(bases) :]
    return [change_row(run, before, record, change) for record, change in zip(after, changes, strict=True)]


def change_row(
    run: ContextRun | Expectation, before: ContextRecord, after: ContextRecord, overrides: Overrides
) -> ImpactRow:
    """The effect of a change on one request, by its two prompts."""
    shown_before, shown_after = _pieces(before), _pieces(after)
    return ImpactRow(
        run,
        before.system_prompt,
        after.system_prompt,
        before.tokens,
        after.tokens,
        tuple(piece for piece in shown_after if piece not in shown_before),
        tuple(piece for piece in shown_before if piece not in shown_after),
        tuple(
            (piece[1], shown_before[piece], label)
            for piece, label in shown_after.items()
            if shown_before.get(piece, label) != label
        ),
        tuple(_not_sent(after, overrides)),
    )


def _marks_by_text(pieces: Sequence[Piece]) -> dict[str, str]:
    parts = (line_parts(text) for kind, text in pieces if kind in MEMORY_TYPES)
    return {one["text"]: one.get("mark", "") for one in parts}


def _replaced(old: str, new: str) -> str:
    """That one text comes in the place of another: only the words that differ, where they are few."""
    changed = sorted((span.kind, span.text.strip()) for span in line_spans(old, new, Budget()) if span.kind != "equal")
    if len(changed) == 2 and changed[0][0] != changed[1][0] and all(text for _, text in changed):
        (_, new), (_, old) = changed
    return f"{_quoted(new)} instead of {_quoted(old)}"


def _quoted(text: str) -> str:
    """The beginning and the end of a text: what facts differ in often comes last."""
    text = " ".join(text.split())
    return f"“{text}”" if len(text) <= MAX_QUOTE else f"“{text[: MAX_QUOTE // 2]}… {text[-MAX_QUOTE // 2 :]}”"


def _not_sent(record: ContextRecord, overrides: Overrides) -> Iterator[NotSent]:
    """The sections that leave out a part of the change. A change of the identity concerns its whole section."""
    changed_ids = {PROPOSED, *overrides.metadata, *(draft.id for draft in overrides.censors)}
    for cut in record.truncated:
        of_identity = cut["key"] == "identity" and any(overrides.identity.values())
        if of_identity or (cut["tier"] < 3 and changed_ids & {item["id"] for item in cut["items"]}):
            yield cut["label"], cut["tokens_left_out"], cut["tokens_whole"]


def _pieces(record: ContextRecord) -> dict[Piece, str]:
    """The pieces of a prompt in their order, each with the label of its section."""
    return {(item["type"], item["text"]): section["label"] for section in record.sections for item in section["items"]}
