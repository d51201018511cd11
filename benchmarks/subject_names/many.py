"""What 10,000 subjects of one agent cost: python -m benchmarks.subject_names.many

At 100, 1,000 and 10,000 subjects with a fact each: learning a fact about a new subject and about a known one, the
daily proposals, the lists and a subject's page, a merge with its undo. Statements, and seconds of this process and of
the database, are counted: they tell more than the clock of a machine that others use.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from benchmarks.system import RESULTS, Client, System, system

SIZES = (100, 1_000, 10_000)
TRIES = 15
SYLLABLES = ("ba", "ko", "ri", "ne", "lu", "mi", "sa", "to", "ve", "da", "fo", "gi", "ha", "je", "pu", "zo")
THINGS = ("service", "database", "team", "client", "project", "cluster", "office", "printer", "budget", "mailbox")


def main() -> None:
    figures: dict[str, dict[str, Any]] = {}
    with system() as running:
        caller = running.agent("many")
        for size in SIZES:
            _grow(size)
            running.embed_all()
            figures[str(size)] = _measured(running, caller)
            sys.stderr.write(f"{size}: {json.dumps(figures[str(size)])}\n")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "many_subjects.json").write_text(json.dumps(figures, indent=1) + "\n")
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")


def _names(seed: int) -> Iterator[str]:
    """Names that are written unlike each other, as those of an agent's world are."""
    chance = random.Random(seed)
    while True:
        words = ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))) for _ in range(chance.randint(1, 2))]
        yield " ".join([*words, chance.choice(THINGS)] if chance.random() < 0.6 else [word.title() for word in words])


def _grow(size: int) -> None:
    """Facts about so many subjects in all, stored as an import stores them."""
    from django.db import connection

    from identity.models import Agent
    from memory.models import Fact
    from memory.services.search_index.reembedding import index_rebuild
    from memory.subjects.registry_backfill import registry_fill
    from nousweb.database.postgres_roles import as_owner

    agent = Agent.objects.get(slug="many")
    held = Fact.objects.filter(agent=agent).count()
    names = _names(size)
    Fact.objects.bulk_create(
        [
            Fact(agent=agent, subject=(name := next(names)), content=f"The {name} answers to {next(names)}.")
            for _ in range(size - held)
        ]
    )
    registry_fill(agent.pk)
    index_rebuild(agent=agent)
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _measured(running: System, caller: Client) -> dict[str, Any]:
    from identity.models import Agent
    from identity.principal import Principal
    from memory.models import Fact, Subject, SubjectAlias
    from memory.persona import ActorMemory
    from memory.selectors import subjects_shown
    from memory.selectors.filters import SubjectFilter
    from memory.services.facts import fact_learn
    from memory.services.subjects.changes import subject_change_undo, subject_merge
    from memory.services.subjects.registry import alias_find

    agent = Agent.objects.get(slug="many")
    by = Principal.of_system("benchmark")
    view = ActorMemory(agent)
    fresh, chance = _names(len(SIZES) + SubjectAlias.objects.count()), random.Random(7)
    known = list(SubjectAlias.objects.filter(agent=agent).values_list("spelling", flat=True)[:1_000])

    def learn(subject: str) -> None:
        fact_learn(agent=agent, content=f"The {subject} moved to {next(fresh)}.", subject=subject, by=by)

    def page() -> list[Any]:
        alias = alias_find(agent=agent, persona="actor", spelling=chance.choice(known))
        assert alias is not None
        spelled = SubjectAlias.objects.filter(agent=agent, subject=alias.subject_id)
        return list(view.facts.filter(subject_alias__in=spelled).order_by("recorded_at", "id")[:200])

    def merged() -> None:
        one, other = Subject.objects.standing().filter(agent=agent).select_related("agent").order_by("pk")[:2]
        subject_change_undo(change=subject_merge(subject=one, into=other, by=by), by=by)

    listed = subjects_shown(view).order_by("-created_at", "-id")
    return {
        "subjects": Subject.objects.filter(agent=agent).count(),
        "facts": Fact.objects.filter(agent=agent).count(),
        "learn, new subject": _median(lambda: learn(next(fresh))),
        "learn, known subject": _median(lambda: learn(chance.choice(known))),
        "list": _median(lambda: list(listed[:50])),
        "list, words": _median(lambda: list(SubjectFilter.narrow(listed, q="ledger")[:50])),
        "page": _median(page),
        "merge and undo": _median(merged),
        "proposals of a day": _median(lambda: _proposals(agent), 3),
    }


def _proposals(agent: Any) -> None:
    from memory.lifecycle.handlers import handlers
    from memory.models import Job

    prepare = handlers()["subject_contexts"].prepare
    assert prepare is not None
    prepare(Job(agent=agent, handler="subject_contexts"))


def _median(work: Callable[[], object], tries: int = TRIES) -> dict[str, float]:
    """Statements, and milliseconds of this process and of the database, each the median."""
    rows = []
    work()
    for _ in range(tries):
        with _statements() as told:
            began = time.process_time()
            work()
            own = time.process_time() - began
        rows.append((len(told), own * 1000, sum(told) * 1000))
    statements, own, database = (median(column) for column in zip(*rows, strict=True))
    return {"statements": statements, "own_ms": round(own, 1), "database_ms": round(database, 1)}


@contextmanager
def _statements() -> Iterator[list[float]]:
    """The seconds of each statement that is executed within."""
    from django.db import connection

    told: list[float] = []

    def timed(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            told.append(time.perf_counter() - began)

    with connection.execute_wrapper(timed):
        yield told


if __name__ == "__main__":
    main()
