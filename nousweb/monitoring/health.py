"""Is the process up (`/healthz`), can it do its work (`/readyz`), and the worker's report of its state."""

from typing import Any

import structlog
from django.apps import apps
from django.contrib.auth.decorators import login_not_required
from django.core.cache.backends.filebased import FileBasedCache
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from nousweb.database.disk_space import ELSEWHERE, OK, disks_checked
from nousweb.database.postgres_roles import product_role_weakness
from nousweb.lib.transactions import sql_row

log = structlog.get_logger(__name__)

_migrated = False
_role = ""


@login_not_required
@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Answer 200 as long as the process can answer at all."""
    return JsonResponse({"status": "ok"})


@login_not_required
@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 when requests can be served, else 503 with the names of the failing checks.

    The background worker is reported and decides nothing: without it requests are served and work waits. Nor does a
    role of the database with more rights than it needs, or a log that is not as it was sealed.
    """
    checks = {
        "database": "ok",
        "database_role": "unknown",
        "migrations": "ok",
        "log": "unknown",
        "worker": "unknown",
        **disks_checked(),
    }
    failing = [name for name in ("data_disk", "database_disk") if checks[name] not in (OK, ELSEWHERE)]
    try:
        if sql_row("SELECT current_setting('transaction_read_only')") == ("on",):
            checks["database"] = "read-only"
            failing.append("database")
        checks["database_role"] = _database_role()
        waiting = unapplied_migrations()
        if waiting:
            checks["migrations"] = f"{waiting} not applied"
            failing.append("migrations")
        else:
            checks["log"] = _log_state()
    except Error as error:
        # The driver's message may name hosts and users: it is only logged.
        log.warning("readyz_database_failed", error=str(error))
        checks |= {"database": "unreachable", "migrations": "unknown"}
        failing.append("database")
    checks["worker"] = worker_state()
    if failing:
        return JsonResponse({"status": "unavailable", "failing": failing, "checks": checks}, status=503)
    return JsonResponse({"status": "ok", "checks": checks})


def _database_role() -> str:
    """ "ok", or "may change history" where one role both owns the tables and serves; logged once."""
    global _role
    if not _role:
        weakness = product_role_weakness()
        if weakness:
            log.warning("database_role_too_mighty", reason=weakness)
        _role = "may change history" if weakness else "ok"
    return _role


def _log_state() -> str:
    """The findings of the last verification of the log, in a word or two."""
    made = apps.get_model("identity", "LogVerification")._default_manager.filter(status="done")
    problems = made.order_by("-id").values_list("problems", flat=True).first()
    if problems is None:
        return "not verified"
    return f"{problems} problems" if problems else "ok"


def unapplied_migrations() -> int:
    """The number of unapplied migrations. Once there is none, that is remembered: this process's code will not
    change."""
    global _migrated
    if _migrated:
        return 0
    executor = MigrationExecutor(connection)
    waiting = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    _migrated = waiting == 0
    return waiting


def worker_state() -> str:
    """The state that the background worker last reported, or "not seen" after seconds of silence."""
    try:
        from django_q.status import Stat

        states = sorted({str(stat.status).lower() for stat in Stat.get_all()})
    except Exception as error:  # This is information only and must not turn a ready answer into an error.
        log.warning("readyzworker_state_failed", error=str(error))
        return "unknown"
    return ", ".join(states) or "not seen"


class HeartbeatCache(FileBasedCache):
    """Django's cache in files, whose folder is made when something is written, and not for a check of the settings."""

    _made = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._made = True

    def _createdir(self) -> None:
        if self._made:
            super()._createdir()  # type: ignore[misc]
