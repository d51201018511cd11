"""Configuration of gunicorn: `gunicorn -c python:nousweb.runtime.gunicorn`."""

import gc
import os
import threading
from pathlib import Path
from typing import Any

import structlog
from django.urls import get_resolver
from prometheus_client import multiprocess

from nousweb.lib.env import read, whole
from nousweb.runtime.garbage import garbage_rare, heap_single
from nousweb.runtime.web_worker.connection import limits_read

_host = read("NOUS_HOST", str, "127.0.0.1")
_port = read("NOUS_PORT", whole(1, 65535), 8000)

wsgi_app = "nousweb.wsgi:application"
bind = f"[{_host}]:{_port}" if ":" in _host else f"{_host}:{_port}"
worker_class = "nousweb.runtime.web_worker.worker.BufferingThreadWorker"
workers = read("NOUS_WEB_WORKERS", whole(1, 64), 2)
threads = read("NOUS_WEB_THREADS", whole(1, 64), 8)
limits = limits_read(threads=threads)
worker_connections = limits.connections
timeout = 120
# Short enough for the supervisor's promise to be gone within ten seconds.
graceful_timeout = 5
keepalive = int(limits.keepalive_seconds)
# The most that gunicorn's parser takes; queries are refused with a problem document a little below it.
limit_request_line = 8190
# Answers go through the worker's own buffers.
sendfile = False
loglevel = "warning"
# Heartbeat files on a slow disk make gunicorn kill healthy workers.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
# Whether the request came over TLS is decided in one place only: NOUS_TRUST_PROXY in the settings.
forwarded_allow_ips = ""
# A second way in, through a file in the home folder, that nobody asked for.
control_socket_disable = True


def when_ready(server: Any) -> None:
    """Load the application with all views and the local model once, before the workers are forked, which then share
    their memory."""
    # Looking for garbage takes a fifth of the time of imports, which leave none.
    gc.disable()
    heap_single()
    server.app.wsgi()
    get_resolver().url_patterns  # noqa: B018
    _model_load(forks=True)
    garbage_rare()


def post_worker_init(worker: Any) -> None:
    """Start traces and metrics, and load a local model that no fork outlives: here and not in the server, whose threads
    would be lost."""
    from django.conf import settings

    if settings.TELEMETRY:
        from nousweb.monitoring.telemetry.exporter import telemetry_start

        telemetry_start()
    # The first requests need not wait for it.
    threading.Thread(target=_model_load, kwargs={"forks": False}, name="warm-up", daemon=True).start()


def _model_load(*, forks: bool) -> None:
    """Load the local model, if it is used, in the one process where that lasts: before a fork or after it."""
    from memory.embedding.registry import configured_name, local_embedder

    if configured_name().startswith("local:") and local_embedder().outlives_fork == forks:
        try:
            local_embedder().load()
        except Exception:
            # Searches report errors of an embedder where people see them; nothing else needs it.
            structlog.get_logger(__name__).exception("model_not_loaded")


def worker_exit(server: Any, worker: Any) -> None:
    """Send the rest of traces and metrics."""
    from django.conf import settings

    if settings.TELEMETRY:
        from nousweb.monitoring.telemetry.exporter import telemetry_stop

        telemetry_stop()


def child_exit(server: Any, worker: Any) -> None:
    """Drop the live gauges of a worker that has ended; its counts stay."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        multiprocess.mark_process_dead(worker.pid)
