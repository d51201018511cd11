"""The form and the page of an export."""

from dataclasses import dataclass
from datetime import datetime

from django import forms

from identity.models import Agent, Persona
from memory.models import ExportRun
from memory.transfer.export_runs import expires_at

LATEST = 10
STATUS_KINDS = {"running": "accent", "done": "ok", "stopped": "warn", "failed": "block", "deleted": "neutral"}


class ExportForm(forms.Form):
    """The memory to export, and whether to include the audit trail."""

    persona = forms.ChoiceField(
        required=False,
        choices=[("", "Both"), (Persona.ACTOR, "Without the memory of the subconscious")],
        label="Whose memory",
    )
    with_audit = forms.BooleanField(required=False, label="With its audit trail")


@dataclass(frozen=True, slots=True)
class ExportPage:
    """The page of an export; `percent` is an estimate."""

    run: ExportRun
    expires_at: datetime

    @property
    def is_working(self) -> bool:
        return self.run.status == ExportRun.Status.RUNNING

    @property
    def has_file(self) -> bool:
        return self.run.status == ExportRun.Status.DONE

    @property
    def percent(self) -> int:
        return min(99, 100 * self.run.lines // max(self.run.expected, 1))

    @property
    def status_kind(self) -> str:
        return STATUS_KINDS[self.run.status]


def export_page(run: ExportRun) -> ExportPage:
    """An export as its page shows it."""
    return ExportPage(run, expires_at(run))


def latest_exports(agent: Agent) -> list[ExportRun]:
    """The latest exports of an agent."""
    return list(ExportRun.objects.filter(agent=agent)[:LATEST])
