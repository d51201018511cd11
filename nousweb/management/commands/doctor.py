"""Check the requirements of the product, with advice for each problem."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand

from identity.models import Agent
from identity.services.seals.export import log_problem
from memory.embedding.registry import configured_name, embedder_named
from memory.judge.model_judge import model_provider
from memory.services.model_chat import chat_model
from nousweb import __version__
from nousweb.database.disk_space import ELSEWHERE, OK, disks_checked
from nousweb.database.postgres_roles import product_role_weakness
from nousweb.lib.installation import CLONED
from nousweb.lib.transactions import sql_row
from nousweb.monitoring.health import unapplied_migrations, worker_state
from nousweb.monitoring.telemetry.exporter import obstacle, signals_wanted

NOUS = "manage.py" if CLONED else "nous"


@dataclass(frozen=True)
class DoctorFinding:
    """The result of one check; `advice` is empty if there is no problem.

    `grave` problems keep the product from working; others are only worth knowing.
    """

    about: str
    state: str
    advice: str = ""
    grave: bool = True


class Command(BaseCommand):
    help = (
        "Check this installation: database, disks, embedder, model, worker, web, agents. Exit code 1 if one is wrong."
    )
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        wrong = 0
        for check in CHECKS:
            for finding in _found(check):
                wrong += bool(finding.advice and finding.grave)
                mark = "ok   " if not finding.advice else "WRONG" if finding.grave else "note "
                self.stdout.write(f"{mark}  {finding.about}: {finding.state}")
                if finding.advice:
                    self.stdout.write(f"       {finding.advice}")
        self.stdout.write("\nEverything that is needed works." if not wrong else f"\n{wrong} wrong.")
        if wrong:
            raise SystemExit(1)


Check = Callable[[], Iterator[DoctorFinding]]


def _found(check: Check) -> Iterator[DoctorFinding]:
    """The findings of a check. An error becomes a finding too, so that the other checks still run."""
    try:
        yield from check()
    except Exception as error:
        name = check.__name__.strip("_").replace("_", " ").capitalize()
        yield DoctorFinding(
            name, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", "See docs/operations.md."
        )


def _installation() -> Iterator[DoctorFinding]:
    yield DoctorFinding("Version", f"{__version__}, {'a clone' if CLONED else 'an installed package'}")
    yield DoctorFinding("Data folder", str(settings.DATA_DIR))


def _disks() -> Iterator[DoctorFinding]:
    words = {"data_disk": "Disk of the data folder", "database_disk": "Disk of the database"}
    for name, state in disks_checked().items():
        well = state in (OK, ELSEWHERE)
        shown = "on another server" if state == ELSEWHERE else "room enough, and writable" if well else state
        yield DoctorFinding(
            words[name], shown, "" if well else "Free some space, or choose another folder (NOUS_DATA_DIR)."
        )


def _database() -> Iterator[DoctorFinding]:
    version, read_only, vector = sql_row(
        "SELECT current_setting('server_version'), current_setting('transaction_read_only'),"
        " (SELECT extversion FROM pg_extension WHERE extname = 'vector')"
    )
    writable = read_only == "off"
    advice = "" if writable else "It only reads: name the primary in DATABASE_URL."
    yield DoctorFinding("Database", f"PostgreSQL {version}, pgvector {vector or 'not yet there'}", advice)
    waiting = unapplied_migrations()
    state = f"{waiting} not applied" if waiting else "all applied"
    yield DoctorFinding("Migrations", state, f"Run `{NOUS} migrate`; `{NOUS} serve` does it too." if waiting else "")
    if weakness := product_role_weakness():
        advice = "See docs/operations.md, 'A PostgreSQL of your own'."
        yield DoctorFinding("Database role", weakness, advice, grave=False)


def _embedder() -> Iterator[DoctorFinding]:
    name = configured_name()
    started = time.perf_counter()
    vector = embedder_named(name).embed_query("How does a doctor test an embedder?")
    milliseconds = round((time.perf_counter() - started) * 1000)
    yield DoctorFinding("Embedder", f"{name}, {vector.size} dimensions, first text in {milliseconds} ms")


def _model() -> Iterator[DoctorFinding]:
    if not (name := chat_model()):
        yield DoctorFinding("Model", "none, so the playground shows prompts without answers")
        return
    headers = {"Authorization": f"Bearer {settings.OPENAI_API_KEY}"} if settings.OPENAI_API_KEY else {}
    place = urlsplit(settings.JUDGE_BASE_URL.rstrip("/"))
    # Without a name and a password before the host, which nobody else may read.
    base = place._replace(netloc=place.netloc.rpartition("@")[2]).geturl()
    address = f"{base}/models"
    if model_provider() == "anthropic":
        headers = {"x-api-key": settings.ANTHROPIC_API_KEY, "anthropic-version": "2023-06-01"}
        address = f"{base}/v1/models?limit=1000"
    state, advice = f"{name} at {address}", ""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=5) as answer:  # noqa: S310 - of our settings
            known = [str(one["id"]) for one in json.load(answer)["data"]]
        if name not in known:
            state += f" is not in its list: {', '.join(known[:10])}"
            advice = "Name one of these in NOUS_CHAT_MODEL or NOUS_JUDGE_MODEL, or load that model there."
    except urllib.error.HTTPError as error:
        state += f": answers {error.code}"
        advice = "Check the key." if error.code in (401, 403) else "Most addresses for NOUS_JUDGE_BASE_URL end in /v1."
    except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
        state += f": no list of models ({error})"
        advice = "Start that server, or correct NOUS_JUDGE_BASE_URL; in a container 127.0.0.1 is the container itself."
    yield DoctorFinding("Model", state, advice, grave=False)


def _background_worker() -> Iterator[DoctorFinding]:
    state = worker_state()
    advice = f"It is part of `{NOUS} serve`; without it new memories are not found by meaning."
    yield DoctorFinding("Background worker", state, advice if state in ("not seen", "unknown") else "", grave=False)


def _web_server() -> Iterator[DoctorFinding]:
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(settings.HOST, settings.HOST)  # noqa: S104
    address = f"http://{host}:{settings.PORT}/readyz"
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            yield DoctorFinding("Web server", f"answers at {address} with {answer.status}")
    except urllib.error.HTTPError as error:
        yield DoctorFinding(
            "Web server", f"answers at {address} with {error.code}", "Open that address: it names what fails."
        )
    except OSError as error:
        reason = f"no answer at {address} ({error})"
        yield DoctorFinding(
            "Web server", reason, f"Start it: `{NOUS} serve`. Or set NOUS_PORT as it has it.", grave=False
        )


def _telemetry() -> Iterator[DoctorFinding]:
    if not (wanted := signals_wanted()):
        yield DoctorFinding("OpenTelemetry", "off")
    elif problem := obstacle():
        yield DoctorFinding("OpenTelemetry", "off", problem)
    else:
        from nousweb.monitoring.telemetry.exporter import endpoint_answers

        for signal in sorted(wanted):
            answers, endpoint = endpoint_answers(signal)
            state = f"{signal} are taken at {endpoint}" if answers else f"{signal} are not taken at {endpoint}"
            advice = "Its own words are above. Correct OTEL_EXPORTER_OTLP_ENDPOINT, or start the collector."
            yield DoctorFinding("OpenTelemetry", state, "" if answers else advice, grave=False)


def _log() -> Iterator[DoctorFinding]:
    if unapplied_migrations():
        return
    problem = log_problem()
    yield DoctorFinding(
        "Log", problem or "sealed", f"Run `{NOUS} verify`, see docs/integrity.md." if problem else "", grave=False
    )


def _people_and_agents() -> Iterator[DoctorFinding]:
    if unapplied_migrations():
        return
    agents, people = Agent.objects.count(), get_user_model().objects.filter(is_active=True).count()
    advice = "" if agents else f"Make one: `{NOUS} createagent NAME`."
    yield DoctorFinding("Agents", str(agents), advice, grave=False)
    advice = "" if people else f"Make one: `{NOUS} createsuperuser`. Only people can approve."
    yield DoctorFinding("People", str(people), advice, grave=False)


CHECKS: tuple[Check, ...] = (
    _installation,
    _disks,
    _database,
    _embedder,
    _model,
    _background_worker,
    _web_server,
    _telemetry,
    _log,
    _people_and_agents,
)
