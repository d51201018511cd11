"""The form and the page of an import."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from django.urls import reverse

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.models import ImportedMemory, ImportRun
from memory.policy import DEFAULT_CATEGORY
from memory.transfer.import_runs import MAX_FILE_BYTES
from memory.transfer.readers import FORMATS
from nousweb.console.common.memory_types import memory_url

LATEST = 8
NAME_CHARACTERS = 40
ITEM_NAMES = {"changeproposal": "proposal"}
KIND_NAMES = {"fact": "facts", "event": "events", "identity": "proposals for the identity"}
STATUS_KINDS = {
    "uploading": "neutral", "checking": "accent", "ready": "accent", "refused": "block", "running": "accent",
    "stopped": "warn", "done": "ok", "failed": "block", "discarded": "neutral",
}  # fmt: skip
OUTCOMES = dict(ImportedMemory.Outcome.choices)


class ImportForm(forms.Form):
    """A file and the choices that hold for all of it."""

    file = forms.FileField(
        required=False,
        label="File",
        help_text=f"JSON, JSON lines, or the zip archive of a chat export; at most {MAX_FILE_BYTES >> 20} MB.",
    )
    format = forms.ChoiceField(
        required=False,
        choices=[("", "Detect automatically"), *((name, one.title) for name, one in FORMATS.items())],
        label="Format",
    )
    persona = forms.ChoiceField(choices=Persona.choices, label="Import into the memory of")
    category = forms.CharField(
        required=False, max_length=50, initial=DEFAULT_CATEGORY, label="Category for facts without one"
    )
    project = forms.CharField(
        required=False, max_length=100, label="Project", help_text="Key, if the memories belong to one."
    )
    task = forms.CharField(
        required=False, max_length=100, label="Task", help_text="Key, if the memories belong to one."
    )
    only = forms.CharField(
        required=False,
        max_length=200,
        label="Import only",
        help_text="One user, namespace, agent or conversation; empty for all.",
    )
    skip_refused = forms.BooleanField(
        required=False,
        label="Leave out what cannot be imported",
        help_text="Otherwise an error rejects the whole file.",
    )

    def __init__(self, *args: Any, by: Principal, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not by.may(VIEW_SUBCONSCIOUS):
            del self.fields["persona"]

    @property
    def upload(self) -> UploadedFile | None:
        """The file, where the browser sent it with the form."""
        found: UploadedFile | None = self.cleaned_data.get("file")
        return found

    def options(self) -> dict[str, Any]:
        """The choices as `run_create` takes them."""
        given = self.cleaned_data
        options = {name: given[name] for name in ("format", "project", "task", "only") if given[name]}
        options["category"] = given["category"] or DEFAULT_CATEGORY
        return options | {"skip_refused": given["skip_refused"]}


@dataclass(frozen=True, slots=True)
class ImportPage:
    """The page of an import. Rows are counts with their labels; `left_seconds` is an estimate, None without one."""

    run: ImportRun
    found: Sequence[tuple[str, int, int, int, Sequence[str]]]
    skipped: Sequence[tuple[str, int]]
    refused: int
    refusals: Sequence[str]
    became: Sequence[tuple[str, str, int]]
    known: int
    changed: int
    percent: int
    left_seconds: int | None

    @property
    def is_working(self) -> bool:
        return self.run.status in ImportRun.WORKING

    @property
    def may_start(self) -> bool:
        return self.run.status in ("ready", "stopped", "failed")

    @property
    def may_discard(self) -> bool:
        return self.run.status in ImportRun.WITH_FILE and not self.is_working

    @property
    def status_kind(self) -> str:
        return STATUS_KINDS[self.run.status]


def import_page(run: ImportRun) -> ImportPage:
    """An import as its page shows it."""
    survey = run.survey
    counts: dict[str, int] = survey.get("counts", {})
    started = bool(run.position or run.outcomes)
    began = run.status == ImportRun.Status.RUNNING and run.share > 0.01 and run.work_seconds > 1
    left = round(run.work_seconds * (1 - run.share) / run.share) if began else None
    return ImportPage(
        run=run,
        found=[
            (
                KIND_NAMES[kind],
                count,
                0 if started else run.known.get(kind, 0),
                0 if started else run.changed.get(kind, 0),
                survey.get("examples", {}).get(kind, []),
            )
            for kind, count in counts.items()
        ],
        skipped=sorted(survey.get("skipped", {}).items(), key=lambda pair: -pair[1]),
        refused=survey.get("refused", 0),
        refusals=survey.get("refusals", []),
        became=[
            (KIND_NAMES[kind], OUTCOMES[outcome].lower(), count)
            for (kind, outcome), count in sorted((tuple(name.split(" ", 1)), n) for name, n in run.outcomes.items())
        ],
        known=sum(run.known.values()) if started else 0,
        changed=sum(run.changed.values()) if started else 0,
        percent=int(run.share * 100),
        left_seconds=left,
    )


def latest_imported(run: ImportRun) -> list[tuple[str, str, str]]:
    """The last imported objects of a file: type, name in the source, and address."""
    rows: QuerySet[ImportedMemory] = ImportedMemory.objects.filter(
        agent=run.agent, persona=run.persona, system=run.system, file=run.file_name
    ).exclude(item_id="")
    return [
        (ITEM_NAMES.get(row.item_type, row.item_type), row.source_id[:NAME_CHARACTERS], address)
        for row in rows.order_by("-id")[:LATEST]
        if (address := _address(run.agent, row))
    ]


def _address(agent: Agent, row: ImportedMemory) -> str:
    if row.item_type == "changeproposal":
        return reverse("proposal", args=[row.item_id])
    return memory_url(agent.slug, row.item_type, row.item_id)
