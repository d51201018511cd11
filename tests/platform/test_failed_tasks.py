"""A task that failed is run again after seconds, by django-q's own worker on the real queue."""

import queue
from datetime import timedelta
from multiprocessing import Value

import pytest
from django.db import transaction
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import OrmQ
from django_q.signals import post_spawn
from django_q.signing import SignedPackage
from django_q.tasks import async_task
from django_q.worker import worker

from nousweb.queue import RETRY_SECONDS, failed_task_retry

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _worker_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker closes idle connections first, and with this one the test's transaction would go.

    The threads that begin with a worker's process would go on in this one, beside the next tests.
    """
    monkeypatch.setattr("django_q.worker.close_old_django_connections", lambda: None)
    monkeypatch.setattr(post_spawn, "receivers", [])


def task_run(task: str, *args: object) -> dict[str, object]:
    """Queue a task and let the worker take and run it; the result as the worker hands it on."""
    async_task(task, *args)
    ((message, package),) = get_broker().dequeue()
    tasks: queue.Queue[object] = queue.Queue()
    results: queue.Queue[dict[str, object]] = queue.Queue()
    tasks.put(SignedPackage.loads(package) | {"ack_id": message})
    tasks.put("STOP")
    worker(tasks, results, Value("f", -1))
    return results.get_nowait()


def test_failed_task_is_due_again_after_seconds() -> None:
    before = timezone.now()
    assert task_run("memory.tasks.lifecycle_run", "not a number")["success"] is False
    due = OrmQ.objects.get().lock
    assert before < due <= timezone.now() + timedelta(seconds=RETRY_SECONDS)
    OrmQ.objects.update(lock=due - timedelta(seconds=RETRY_SECONDS + 1))
    assert get_broker().dequeue()


def test_task_done_keeps_its_message_until_it_is_acknowledged() -> None:
    assert task_run("memory.tasks.purge_runs")["success"] is True
    assert OrmQ.objects.get().lock > timezone.now() + timedelta(minutes=5)


def test_failed_task_of_an_aborted_transaction_does_not_end_the_worker() -> None:
    async_task("memory.tasks.purge_runs")
    message = OrmQ.objects.get().pk
    before = OrmQ.objects.get().lock
    with transaction.atomic():
        transaction.set_rollback(True)
        failed_task_retry(task={"ack_id": message, "success": False})
    assert OrmQ.objects.get().lock == before
