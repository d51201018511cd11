"""What apps add to memory while they are set up, so that memory depends on none of them.

Functions and handlers are dotted paths, imported at their first use: commands start sooner without their modules.
"""

from django.db.models import Model

from identity.models import AuditEvent

job_handlers: dict[str, str] = {}
"""Handlers of jobs by name, besides those of memory itself (memory/lifecycle/handlers)."""
job_sources = ["memory.transfer.file_runs.runs_give_up"]
"""Functions that each worker calls every few seconds: they queue jobs for due work, or end what has no job any more."""
erasers = [
    "memory.services.erasure.steps.jobs_erase",
    "memory.services.erasure.steps.imports_erase",
    "memory.services.erasure.steps.sources_erase",
    "memory.services.erasure.steps.proposals_unlink",
    "memory.transfer.file_runs.runs_erase",
]
"""Each takes an `Erasure`, erases the rows of its app in the transaction of the erasure, and returns numbers of rows by
table.

When a whole agent is erased, rows with a foreign key to the agent are deleted without an eraser.
"""
large_tables: list[type[Model]] = [AuditEvent]
"""Tables that an erasure scans before the agent is locked, so that writers do not wait for it; see `quoting_keys`."""
request_logs: list[type[Model]] = []
"""Tables of the requests of agents, which may name a `user` of whom nothing else is stored."""
