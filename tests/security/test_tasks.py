"""Ways from the queue and the schedules to a shell: each is refused, recorded, and stops nothing else."""

import inspect
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from django.utils.module_loading import import_string
from django_q.brokers import get_broker
from django_q.models import OrmQ, Schedule, Task
from django_q.scheduler import scheduler
from django_q.signing import SignedPackage
from django_q.tasks import async_task

from identity.models import AuditEvent
from nousweb.lib.background import tasks_declared
from nousweb.queue import REFUSED, schedules_sync, task_refused
from tests.product import Product, product_running, until

SCRIPT = """
import os, django, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
django.setup()
from django.utils import timezone
from django_q.models import OrmQ
from django_q.signing import SignedPackage
from django_q.tasks import async_task
touch = "touch " + sys.argv[1]
plain = {"id": "1" * 32, "name": "n", "args": (touch,), "kwargs": {}, "started": timezone.now()}
allowed = plain | {"func": "memory.tasks.embed_pending", "args": ()}
for task in (
    plain | {"func": "os.system"},
    plain | {"func": os.system},
    allowed | {"hook": "os.system"},
    allowed | {"hook": os.system},
    allowed | {"chain": [("os.system", (touch,))], "group": "g", "cached": False, "sync": False},
    allowed | {"sync": True},
    ["not", "a", "task"],
):
    OrmQ.objects.create(key="nous", payload=SignedPackage.dumps(task), lock=timezone.now())
async_task("os.system", touch)
async_task("memory.tasks.embed_pending")
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """The file that every attack tries to make."""
    return tmp_path / "planted"


@pytest.fixture
def product() -> Iterator[Product]:
    with product_running("tasks") as running:
        yield running


def test_task_not_on_the_list_is_not_run(product: Product, planted: Path) -> None:
    product.run("-c", SCRIPT, str(planted))
    product.worker()
    until("the harmless task has run", lambda: product.rows("SELECT 1 FROM django_q_task WHERE success") != [])
    until("the queue is empty", lambda: product.rows("SELECT count(*) FROM django_q_ormq") == [(0,)])
    assert not planted.exists()
    refused = product.rows("SELECT object_label FROM identity_auditevent WHERE action = 'task.refuse' ORDER BY id")
    # Seven out of the queue, and the one that async_task had turned into a refusal.
    assert len(refused) == 8
    assert set(product.rows("SELECT func FROM django_q_task")) == {("memory.tasks.embed_pending",), (REFUSED,)}


@pytest.fixture
def _connection_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler closes idle connections first, and with this one the test's transaction would go."""
    monkeypatch.setattr("django_q.scheduler.close_old_django_connections", lambda: None)


@pytest.mark.usefixtures("_connection_kept")
@pytest.mark.parametrize("options", ["", "q_options={'sync': True}", "q_options={'hook': 'os.system'}"])
@pytest.mark.django_db
def test_schedule_of_another_function_is_paused_and_recorded(planted: Path, options: str) -> None:
    due = timezone.now() - timedelta(minutes=1)
    Schedule.objects.update(next_run=timezone.now() + timedelta(days=1))
    bad = Schedule.objects.create(
        name="bad",
        func="os.system",
        args=f"'touch {planted}'",
        kwargs=options,
        next_run=due,
        schedule_type="I",
        minutes=1,
    )
    good = Schedule.objects.create(func="memory.tasks.dream", next_run=due, schedule_type="I", minutes=1)
    scheduler(broker=get_broker())
    queued = [SignedPackage.loads(row.payload) for row in OrmQ.objects.order_by("pk")]
    assert [task["func"] for task in queued] == [REFUSED, "memory.tasks.dream"]
    assert task_refused(*queued[0]["args"]) == 1
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.repeats, good.repeats) == (0, -1)
    assert AuditEvent.objects.get(action="schedule.refuse").after == {"state": "paused", "function": "os.system"}
    assert not planted.exists()


@pytest.mark.usefixtures("_connection_kept")
@pytest.mark.django_db
def test_schedule_hook_or_chain_is_refused_for_listed_functions(planted: Path) -> None:
    due = timezone.now() - timedelta(minutes=1)
    Schedule.objects.update(next_run=timezone.now() + timedelta(days=1))
    Schedule.objects.create(func="memory.tasks.dream", hook="os.system", next_run=due)
    scheduler(broker=get_broker())
    (task,) = [SignedPackage.loads(row.payload) for row in OrmQ.objects.all()]
    assert task["func"] == REFUSED
    assert "hook" not in task
    async_task("memory.tasks.dream", chain=[("os.system", (f"touch {planted}",))])
    assert all("chain" not in SignedPackage.loads(row.payload) for row in OrmQ.objects.all())


@pytest.mark.django_db
def test_task_done_calls_no_hook(planted: Path) -> None:
    now = timezone.now()
    Task.objects.create(
        id="1", name="n", func="x", hook="tests.security.test_tasks.hook", started=now, stopped=now, success=True
    )
    assert not HOOKED


HOOKED: list[object] = []


def hook(task: object) -> None:
    HOOKED.append(task)


@pytest.mark.django_db
def test_declared_tasks_are_functions_and_have_the_schedules() -> None:
    declared = tasks_declared()
    for path in declared:
        assert inspect.isfunction(import_string(path)), path
    Schedule.objects.filter(func="memory.tasks.dream").update(func="memory.tasks.gone", repeats=0)
    Schedule.objects.filter(func="memory.tasks.purge_runs").update(repeats=0, name="Former name", minutes=1)
    schedules_sync()
    rows = dict(Schedule.objects.values_list("func", "repeats"))
    assert rows.keys() == {path for path, task in declared.items() if task.minutes}
    assert (rows["memory.tasks.dream"], rows["memory.tasks.purge_runs"]) == (-1, 0), "a pause stays"
    assert Schedule.objects.filter(name="Delete old job records and expired files", minutes=24 * 60).exists()
