from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from identity.models import Persona
from identity.principal import Principal
from identity.selectors import agent_get
from memory.management.progress import file_progress
from memory.transfer.import_dry_run import ImportRequest
from memory.transfer.import_memory import ImportReport, Progress, memories_import, memories_preview
from memory.transfer.readers import FORMATS

KINDS = {
    "fact": ("fact", "facts"),
    "event": ("event", "events"),
    "identity": ("proposal for the identity", "proposals for the identity"),
}


class Command(BaseCommand):
    help = (
        "Import what another tool exported into an agent's memory. Running it again goes on where it stopped and stores"
        " nothing twice; nothing becomes identity without a person."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="JSON, JSON lines, or the zip archive of a chat export")
        parser.add_argument("--agent", required=True, help="the agent's slug")
        parser.add_argument("--format", default="", choices=["", *FORMATS], help="recognised by default")
        parser.add_argument("--dry-run", action="store_true", help="say what would come, and store nothing")
        parser.add_argument("--persona", choices=Persona.values, default=Persona.ACTOR.value)
        parser.add_argument("--project", default="", help="key of the project that the memories belong to")
        parser.add_argument("--task", default="", help="key of the task that the memories belong to")
        parser.add_argument("--user", default="", help="key of the user whose memories they are, * for everybody")
        parser.add_argument("--category", help="of facts that name none")
        parser.add_argument("--only", default="", help="only of this user, namespace, agent or conversation")
        parser.add_argument(
            "--section", action="append", default=[], metavar="BLOCK=SECTION",
            help="identity section of a Letta block, or none to leave it out; may be repeated",
        )  # fmt: skip
        parser.add_argument("--skip-refused", action="store_true", help="import the rest of a file that has mistakes")

    def handle(self, *args: Any, **options: Any) -> None:
        request = ImportRequest(
            path=options["file"],
            sections=dict(_pair(text) for text in options["section"]),
            **{
                name: options[name]
                for name in ("format", "persona", "project", "task", "user", "category", "only", "skip_refused")
                if options[name] is not None
            },
        )
        by, work = Principal.of_command(channel="import"), memories_preview if options["dry_run"] else memories_import
        with file_progress(self.stderr, request.path) as bar:

            def watch(progress: Progress) -> None:
                counts = "read" if progress.checking else f"{progress.stored:,} stored, {progress.known:,} known"
                bar.show(progress.share, counts)

            report = work(agent=agent_get(options["agent"], by), request=request, by=by, watch=watch)
        for line in _preview(report) if options["dry_run"] else _result(report):
            self.stdout.write(line)


def _pair(text: str) -> tuple[str, str]:
    label, equals, section = text.rpartition("=")
    if not equals or not label:
        raise CommandError(f"--section is BLOCK=SECTION, not {text!r}.")
    return label, section


def _counted(count: int, kind: str) -> str:
    return f"{count:,} {KINDS[kind][count != 1]}"


def _preview(report: ImportReport) -> list[str]:
    survey = report.survey
    lines = [f"Format: {FORMATS[survey.format].title}. Nothing was stored."]
    for kind, count in survey.counts.items():
        known = report.known[kind]
        changed = f", {report.changed[kind]:,} of them changed since" if report.changed[kind] else ""
        lines.append(_counted(count, kind) + (f"; {known:,} imported before{changed}" if known else ""))
        lines.extend(f"  {example}" for example in survey.examples[kind])
    return lines + _left_out(report)


def _result(report: ImportReport) -> list[str]:
    lines = [f"{_counted(count, kind)}: {outcome}" for (kind, outcome), count in sorted(report.outcomes.items())]
    if known := report.known.total():
        lines.append(f"{known:,} {'was' if known == 1 else 'were'} imported before.")
    if changed := report.changed.total():
        lines.append(f"{changed:,} of them say something else now, and stay as they were.")
    return (lines or ["The file holds nothing to import."]) + _left_out(report)


def _left_out(report: ImportReport) -> list[str]:
    survey = report.survey
    lines = [f"{count:,} skipped: {why}" for why, count in survey.skipped.most_common()]
    if survey.refused:
        lines.append(f"{survey.refused:,} refused:")
        lines.extend(f"  {line}" for line in survey.refusals)
        if survey.refused > len(survey.refusals):
            lines.append(f"  and {survey.refused - len(survey.refusals):,} more")
    return lines
