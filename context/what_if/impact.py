"""Impact of a change: logged requests assembled with it and without it. Writes nothing."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from context.engine.analysis.request import ContextRequest
from context.engine.analysis.resolved_request import request_resolve
from context.engine.context_record import ContextRecord
from context.engine.overrides import PROPOSED, Overrides
from context.engine.pipeline import build_record, context_inputs_load, context_inputs_with
from context.models import ASSEMBLE, ContextRun
from context.what_if.expectations import NO_EXPECTATIONS, ExpectationImpact, expectation_impact
from identity.models import Agent
from identity.principal import Principal
from memory.persona import persona_memory
from memory.services.subjects.merge import subjects_merged_in_dry_run
from nousweb.lib.errors import Invalid, NotFound

MAX_RUNS = 50
DEFAULT_RUNS = 20
MAX_SECONDS = 8.0
Piece = tuple[str, str]
NotSent = tuple[str, int, int]
"""A section that leaves out a part of the change: its label, the tokens left out, and the tokens of the whole."""


@dataclass(frozen=True, slots=True)
class ImpactRow:
    """The effect of a change on one logged request, assembled today. Pieces are (type, text) as the prompt shows them.

    `moved` pieces stay in the prompt, in another section: the text, and the labels of both sections.
    `not_sent` are the sections that would leave out a part of the change.
    """

    run: ContextRun
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


@dataclass(frozen=True, slots=True)
class Impact:
    """The rows, latest request first. `requested`: how many requests to replay; time may run out before all are."""

    rows: tuple[ImpactRow, ...]
    requested: int
    unreadable: int = 0
    expectations: ExpectationImpact = NO_EXPECTATIONS

    @property
    def changed(self) -> tuple[ImpactRow, ...]:
        return tuple(row for row in self.rows if row.changed)

    @property
    def not_sent(self) -> tuple[ImpactRow, ...]:
        """The requests whose prompts would leave out a part of the change."""
        return tuple(row for row in self.rows if row.not_sent)

    @property
    def largest_not_sent(self) -> NotSent | None:
        """The section that would leave out the most tokens."""
        cuts = [cut for row in self.rows for cut in row.not_sent]
        return max(cuts, key=lambda one: one[1], default=None)

    @property
    def cut_short(self) -> bool:
        return len(self.rows) + self.unreadable < self.requested


def impact_of(
    *, agent: Agent, overrides: Overrides, by: Principal, last: int = DEFAULT_RUNS, seconds: float = MAX_SECONDS
) -> Impact:
    """Assemble the last `last` logged requests (at most MAX_RUNS) today, with and without `overrides`.

    Requests about the past are skipped, since the change is made now. Both prompts share the loaded inputs, except for
    a fact that would be searched from now on, which needs another search. The agent's expectations are checked
    the same way. No request starts after `seconds`, and no expectation after as many more. Raises Invalid, NotAllowed.
    """
    if not 1 <= last <= MAX_RUNS:
        raise Invalid(f"n must be between 1 and {MAX_RUNS}.", field="n")
    by.require(ASSEMBLE, agent)
    by.require("context.view_contextrun", agent)
    runs = list(
        ContextRun.objects.visible_to(by)
        .filter(agent=agent)
        .filter(as_of=None)
        .only("id", "agent_id", "persona", "request", "created_at", "session_id", "input")[:last]
    )
    until = time.monotonic() + seconds
    rows: list[ImpactRow] = []
    unreadable = 0
    for run in runs:
        if time.monotonic() >= until:
            break
        try:
            rows.append(_row(agent, run, overrides, by))
        except (Invalid, NotFound, KeyError):
            # The request has an older format, or its profile was deleted.
            unreadable += 1
    expectations = expectation_impact(agent=agent, overrides=overrides, by=by, seconds=seconds)
    return Impact(tuple(rows), len(runs), unreadable, expectations)


def impact_of_run(*, agent: Agent, run_id: UUID, overrides: Overrides, by: Principal) -> ImpactRow:
    """The impact of a change on one logged request. Raises NotAllowed, NotFound."""
    by.require(ASSEMBLE, agent)
    by.require("context.view_contextrun", agent)
    run = ContextRun.objects.visible_to(by).filter(agent=agent).filter(pk=run_id).first()
    if run is None:
        raise NotFound("There is no such run. Runs are deleted when their retention ends.")
    return _row(agent, run, overrides, by)


def _row(agent: Agent, run: ContextRun, overrides: Overrides, by: Principal) -> ImpactRow:
    view = persona_memory(agent, by, run.persona)
    resolved = request_resolve(view, ContextRequest.of_json(run.request))
    overrides = overrides.visible_to(view.personas)
    others = list(overrides.metadata)
    inputs = context_inputs_load(view, resolved, others=others)
    before = build_record(inputs)
    with subjects_merged_in_dry_run(agent, overrides.merged):
        after = build_record(context_inputs_with(view, inputs, overrides, others), overrides)
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
