"""Server time of the console's pages at size: python -m benchmarks.console_pages [--facts 100000] [--events 1000000]

The demo's agent gets that many memories, and as many items wait as `--items` says (benchmarks.console_rows); with
`--demo`, the demo stays as it is. Each page is asked for as its form and links would, by a person who may see
everything, through all of the product's middleware in this process, so that what is measured is the server alone: its
SQL, its Python and its template. The first requests of each page are left out. Searches and prompts are measured by
benchmarks.latency and benchmarks.large.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from benchmarks.console_rows import Size, filled
from benchmarks.ingestion import cpu_seconds, server_pid
from benchmarks.system import RESULTS, collections_index, system

ASKED = 30
WARM_UP = 2
"""Requests of a page after its first one, before those that are measured."""
BOUND_MS = 100.0
DEMO_BOUND_MS = 60.0


def addresses(size: Size | None) -> dict[str, str]:
    """Of each page by what it shows. Pages of one thing are of the latest, which all the links lead to."""
    from django.urls import reverse

    from context.feedback.health_findings import FINDINGS
    from context.models import ContextRun
    from identity.models import AuditEvent, ChangeProposal
    from memory.models import Decision, Episode, Event, Fact, MemoryReview, Procedure, Subject

    def latest(rows: Any, moment: str = "created_at") -> Any:
        return rows.filter(persona="actor").latest(moment)

    fact = latest(Fact.objects.filter(active=True, content__contains="case" if size else ""), "recorded_at")
    event = latest(Event.objects, "ts")
    subject = latest(Subject.objects.filter(name__startswith="Case" if size else ""))
    run = latest(ContextRun.objects)
    proposal = latest(ChangeProposal.objects.filter(status="pending"))
    review = latest(MemoryReview.objects.pending())
    decision, episode, procedure = (latest(model.objects) for model in (Decision, Episode, Procedure))
    record = AuditEvent.objects.latest("pk").pk
    of_agent = (
        "agent_identity agent_settings agent_tokens agent_connect agent_changes agent_webhooks agent_facts agent_events"
        " agent_episodes agent_decisions agent_documents agent_procedures agent_censors agent_working agent_index"
        " agent_health agent_health_ledger agent_imports agent_subjects agent_supersessions agent_context_runs"
        " agent_context_fingerprints agent_context_settings agent_context_pins agent_expectations agent_playground"
        " agent_playground_compare agent_context agent_search"
    )
    plain = "home usage inbox notifications lifecycle audit integrity agents people account context_profiles"
    found = {name: reverse(name) for name in plain.split()}
    found |= {name: reverse(name, args=["marlow"]) for name in of_agent.split()}

    def more(name: str, label: str, query: str) -> None:
        found[f"{name}, {label}"] = f"{found[name]}?{query}"

    more("usage", "30 days", "days=30")
    more("usage", "one agent", "agent=marlow")
    for label, query in (
        ("oldest", "sort=oldest"),
        ("one agent", "agent=marlow"),
        ("high risk", "risk=high"),
        ("applied", "view=applied"),
        ("mine", "view=mine"),
        ("snoozed", "view=snoozed"),
        ("a word", "q=harbour"),
    ):
        more("inbox", label, query)
    more("inbox", "identity", "view=identity")
    more("inbox", "identity, decided", "view=identity&status=decided")
    more("inbox", "reviews", "view=reviews")
    more("inbox", "duplicates", "view=reviews&kind=duplicate")
    more("inbox", "reviews, answered", "view=reviews&status=decided")
    more("audit", "one action", "action=fact.store")
    more("audit", "a word", "q=harbour")
    more("agent_facts", "a word", "q=harbour")
    more("agent_facts", "all states", "state=all&persona=subconscious")
    more("agent_facts", "a subject", "subject=Case+7")
    more("agent_facts", "a category", "category=tool")
    more("agent_events", "each", "view=events")
    more("agent_events", "a word", "view=events&q=harbour")
    more("agent_subjects", "a word", "q=case+7")
    more("agent_subjects", "contradicted", "state=contradicted")
    more("agent_playground_compare", "a change on many questions", "table=1")
    more("agent_context_runs", "a word", "q=harbour")
    more("agent_context_runs", "failed", "outcome=failure")
    found |= {
        "search, a word": f"{reverse('search')}?q=harbour",
        "record": reverse("audit_event", args=[record]),
        "proposal": reverse("proposal", args=[proposal.pk]),
        "question": reverse("memory_review_detail", args=[review.pk]),
        "history": reverse("section_history", args=["marlow", "values"]),
        "fact": reverse("agent_fact", args=["marlow", fact.pk]),
        "event": reverse("agent_event", args=["marlow", event.pk]),
        "loop": reverse("agent_loop", args=["marlow", event.loop_id]),
        "subject": reverse("agent_subject", args=["marlow", fact.subject]),
        "subject by id": reverse("agent_subject_thing", args=["marlow", subject.pk]),
        "episode": reverse("agent_episode", args=["marlow", episode.pk]),
        "decision": reverse("agent_decision", args=["marlow", decision.pk]),
        "procedure": reverse("agent_procedure", args=["marlow", procedure.pk]),
        "run": reverse("agent_context_run", args=["marlow", run.pk]),
        "session": f"{reverse('agent_context_session', args=['marlow'])}?session={run.session_id}",
    }
    lists = {f"health, {name}": reverse("agent_health_list", args=["marlow", name]) for name in FINDINGS}
    return found | lists


def noted(queries: list[str], execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
    """Run a statement, as Django's wrappers do, and note it."""
    queries.append(sql)
    return execute(sql, *rest)


def cpu_seconds_of_both() -> float:
    """What this process and PostgreSQL have used, whose backends start others for large tables."""
    return time.process_time() + cpu_seconds({server_pid()})


def measured(get: Callable[[str], Any], pages: dict[str, str], asked: int) -> dict[str, dict[str, float]]:
    """Milliseconds and queries of each page; `cpu_ms` is processor time, whatever else the machine does."""
    from django.db import connection

    found = {}
    for name, address in pages.items():
        queries: list[str] = []
        with connection.execute_wrapper(partial(noted, queries)):
            answer = get(address)
        if answer.status_code != 200:
            raise RuntimeError(f"{name}: {address} answered {answer.status_code}")
        for _ in range(WARM_UP):
            get(address)
        took, spent = [], cpu_seconds_of_both()
        for _ in range(asked):
            began = time.perf_counter()
            get(address)
            took.append((time.perf_counter() - began) * 1000)
        spent = cpu_seconds_of_both() - spent
        found[name] = {
            "p50_ms": float(np.percentile(took, 50)),
            "p95_ms": float(np.percentile(took, 95)),
            "cpu_ms": spent / asked * 1000,
            "queries": len(queries),
            "kilobytes": len(answer.content) / 1000,
        }
        figures = " ".join(f"{found[name][figure]:8.0f}" for figure in ("p50_ms", "p95_ms", "cpu_ms"))
        print(f"{figures} {len(queries):4}  {name}", file=sys.stderr)
    return found


def caller() -> Callable[[str], Any]:
    """What asks for a page as somebody who may see each, of a process like one of the web server that `serve` starts:
    views are loaded, garbage is looked for as seldom, the connection to the database is kept."""
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.urls import get_resolver

    from nousweb.runtime.garbage import garbage_rare
    from nousweb.runtime.gunicorn import post_worker_init

    get_resolver().url_patterns  # noqa: B018
    garbage_rare()
    post_worker_init(None)
    connection.settings_dict["CONN_MAX_AGE"] = 600
    connection.close()
    client = Client(SERVER_NAME="localhost")
    client.force_login(User.objects.create_superuser("measured"))
    return client.get


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("facts", "events", "items", "runs", "logged"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Size(), name))
    parser.add_argument("--asked", type=int, default=ASKED)
    parser.add_argument("--demo", action="store_true", help="the demo alone")
    options = parser.parse_args()
    size = None if options.demo else Size(options.facts, options.events, options.items, options.runs, options.logged)
    bound = DEMO_BOUND_MS if options.demo else BOUND_MS
    with system():
        from nousweb.demo.demo_loader import demo_load

        demo_load()
        from nousweb.console.tasks import keep_figures, keep_inbox_ranks

        filling = filled(size) if size else 0.0
        # What the worker does by the clock.
        collections_index()
        keep_inbox_ranks()
        keep_figures()
        pages = measured(caller(), addresses(size), options.asked)
    slow = [name for name, one in pages.items() if one["p95_ms"] > bound]
    RESULTS.mkdir(parents=True, exist_ok=True)
    found = {"size": asdict(size) if size else "demo", "fill_seconds": filling, "pages": pages}
    (RESULTS / f"console-pages{'-demo' * options.demo}.json").write_text(json.dumps(found, indent=1))
    print(f"{len(pages)} pages, {len(slow)} above {bound:.0f} ms: {', '.join(slow) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
