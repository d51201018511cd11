"""Importing a file on its pages: what is refused, and what of it is done, stopped, resumed and left behind."""

import json
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import TestCase
from django.urls import reverse

from identity.models import AuditEvent, ChangeProposal
from identity.principal import Principal
from identity.services.agents import agent_create
from memory.jobs import JOB_LEASE
from memory.lifecycle.runner import due_work_queue, job_run
from memory.models import Event, Fact, FileRun, ImportedMemory, Job
from memory.services.erasure import agent_erase
from memory.transfer import file_runs
from memory.transfer.file_runs import file_path, run_work, runs_expire
from nousweb.lib import clock
from tests.http import browser

FACT = {"record": "fact", "id": "f1", "content": "The mole is three hundred metres long.", "subject": "mole"}
EVENT = {"record": "event", "id": "e1", "kind": "user_input", "content": "How long is the mole?", "loop_id": "harbour"}
WISH = {"record": "identity", "section": "values", "content": "Measure twice.", "reason": "It was so before."}


def lines(*records):
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


@pytest.fixture
def admin(ada, charlie):
    return browser(charlie)


def upload(client, content, name="notes.jsonl", slug="ada", **fields):
    file = SimpleUploadedFile(name, content)
    return client.post(reverse("agent_imports", args=[slug]), {"persona": "actor", "file": file, **fields})


def announce(client, size, name="big.jsonl", **fields):
    given = {"persona": "actor", "name": name, "size": size, **fields}
    return client.post(reverse("agent_imports", args=["ada"]), given)


def part(client, run, offset, content, slug="ada"):
    address = f"{reverse('agent_import_part', args=[slug, run.pk])}?offset={offset}"
    return client.post(address, content, content_type="application/octet-stream")


def change(client, run, what):
    address = reverse("agent_import_change", args=["ada", run.pk, what])
    with TestCase.captureOnCommitCallbacks(execute=True):
        answer = client.post(address, follow=True)
    return " ".join(answer.content.decode().split())


def work():
    """What the worker would do now: each job that waits, and those that come of it."""
    with TestCase.captureOnCommitCallbacks(execute=True):
        while job := Job.objects.filter(handler="import_run", status="queued").first():
            assert job_run(job.pk) == "done"


def latest():
    return FileRun.objects.latest("created_at")


def text_of(client, run):
    return " ".join(client.get(run.get_absolute_url()).content.decode().split())


def test_a_file_is_checked_then_imported_and_deleted(admin, ada):
    answer = upload(admin, lines(FACT, EVENT, WISH))
    run = latest()
    assert (answer.status_code, answer["Location"]) == (302, run.get_absolute_url())
    assert run.status == "checking"
    assert "hx-trigger" in text_of(admin, run)
    assert file_path(run.pk).stat().st_mode & 0o777 == 0o600
    work()
    run.refresh_from_db()
    assert (run.status, run.system, run.survey["counts"]) == ("ready", "nous", {"fact": 1, "event": 1, "identity": 1})
    shown = text_of(admin, run)
    for word in ("Checked, not started", "The mole is three hundred metres long.", "proposals for the identity"):
        assert word in shown, word
    assert not ImportedMemory.objects.exists()

    assert "continues in the background" in change(admin, run, "start")
    work()
    run.refresh_from_db()
    assert (run.status, run.share) == ("done", 1.0)
    assert run.outcomes == {"fact stored": 1, "event stored": 1, "identity proposed": 1}
    assert not file_path(run.pk).exists()
    assert run.survey["examples"] == {}, "what was in the file is kept as memory, and nowhere else"
    fact, proposal = Fact.objects.get(), ChangeProposal.objects.get()
    assert (fact.changes.get().author_name, fact.endorsed) == ("started by charlie, import of notes.jsonl", False)
    assert proposal.status == "pending"
    shown = text_of(admin, run)
    assert fact.get_absolute_url() in shown
    assert reverse("proposal", args=[proposal.pk]) in shown
    actions = AuditEvent.objects.filter(action__startswith="memory").values_list("action", "author_name")
    assert [action for action, _ in actions.order_by("pk")] == [
        "memory_import.create", "memory_import.start", "memory.import",
    ]  # fmt: skip
    assert "it cannot be started" in change(admin, run, "start")

    upload(admin, lines(FACT, EVENT, WISH))
    work()
    assert "1 imported before" in text_of(admin, latest()).replace("</strong>", "")


def test_a_large_file_comes_in_parts(admin, ada, monkeypatch):
    content = lines(FACT, EVENT)
    made = announce(admin, len(content)).json()
    run = latest()
    assert made["page"] == run.get_absolute_url()
    assert part(admin, run, 0, content[:40]).json()["received"] == 40
    assert part(admin, run, 50, b"late").status_code == 409
    assert part(admin, run, 20, content[20:60]).json()["received"] == 60, "what was sent twice is taken once"
    assert part(admin, run, 60, content[60:] + b"more").status_code == 422
    assert part(admin, run, "x", b"a").status_code == 422
    assert part(admin, run, 60, content[60:]).json() == {"received": len(content), "status": "checking"}
    assert part(admin, run, 0, b"again").status_code == 409
    assert file_path(run.pk).read_bytes() == content


@pytest.mark.parametrize(
    ("content", "fields", "why"),
    [
        (b"", {}, "empty"),
        (lines(FACT), {"category": "rule"}, "affects every prompt"),
        (lines(FACT), {"format": "none"}, "none is not one of the available choices"),
        (lines(FACT), {"project": "two words\x01"}, "project"),
    ],
)
def test_what_cannot_be_imported_is_refused_on_the_form(admin, content, fields, why):
    answer = upload(admin, content, **fields)
    assert answer.status_code == 422
    assert why in answer.content.decode()
    assert not FileRun.objects.exists()


def test_a_file_that_is_too_large_is_refused_before_it_is_sent(admin):
    answer = announce(admin, file_runs.MAX_FILE_BYTES + 1)
    assert answer.status_code == 422
    assert "256 MB" in answer.json()["errors"][0]
    assert announce(admin, "-1").status_code == 422


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (lines(FACT, {"record": "fact", "content": " "}), "line 2: content"),
        (b'{"record": "fact", "content": "One."}\n{"record": \n', "line 2"),
        (b"a,b\n1,2\n", "line 1: this is neither"),
        (b"PK\x03\x04nothing", "the archive"),
    ],
)
def test_a_file_with_mistakes_is_refused_with_their_place(admin, content, why):
    upload(admin, content)
    work()
    run = latest()
    assert run.status == "refused"
    assert why in text_of(admin, run)
    assert not file_path(run.pk).exists()
    assert not ImportedMemory.objects.exists()


def test_what_is_refused_can_be_left_out(admin):
    upload(admin, lines(FACT, {"record": "fact", "content": " "}), skip_refused="on")
    work()
    change(admin, latest(), "start")
    work()
    assert (latest().status, Fact.objects.count()) == ("done", 1)


def test_an_import_is_stopped_resumed_and_gone_on_with_after_a_kill(admin, monkeypatch):
    monkeypatch.setattr("memory.transfer.import_memory.LOOKED_UP", 4)
    upload(admin, lines(*({**EVENT, "id": f"e{number}", "content": f"Wave {number}."} for number in range(20))))
    work()
    run = latest()
    change(admin, run, "start")
    assert run_work(run.pk, seconds=0.0), "a slice ends after the first entries, and there is more"
    assert Event.objects.count() == 4

    class Killed(BaseException):
        pass

    def kill(*args, **given):
        raise Killed

    with monkeypatch.context() as patch:
        # What was stored is stored, and how far it came is not written any more.
        patch.setattr(file_runs, "_update", kill)
        with pytest.raises(Killed):
            run_work(run.pk)
    assert Event.objects.count() == 8
    assert "stops" in change(admin, run, "stop")
    assert not run_work(run.pk)
    assert "Resume" in text_of(admin, run)
    change(admin, run, "start")
    work()
    run.refresh_from_db()
    assert (run.status, Event.objects.count(), ImportedMemory.objects.count()) == ("done", 20, 20)
    assert run.outcomes == {"event stored": 20}, "its own entries were not imported before"
    assert not sum(run.known.values())


def test_a_run_whose_workers_were_killed_is_told_as_failed_and_goes_on(admin):
    upload(admin, lines(FACT))
    run, jobs = latest(), Job.objects.filter(handler="import_run")
    due_work_queue()
    assert "Being checked" in text_of(admin, run)
    dead = {"status": "running", "attempts": JOB_LEASE.max_attempts, "next_attempt_at": clock.now()}
    for _ in range(2):
        jobs.filter(key=file_runs.job_key(run)).update(**dead)
        due_work_queue()
        shown = text_of(admin, run)
        assert "The worker gave up after several attempts." in shown
        assert "Being checked" not in shown
        change(admin, run, "start")
        run.refresh_from_db()
        assert run.status == "checking"
    work()
    change(admin, run, "start")
    work()
    run.refresh_from_db()
    assert (run.status, run.error) == ("done", "")


def test_a_discarded_or_forgotten_file_is_deleted(admin, ada, system):
    for name in ("one.jsonl", "two.jsonl", "three.jsonl"):
        upload(admin, lines(FACT), name)
    work()
    one, two, three = FileRun.objects.order_by("created_at")
    assert "was deleted" in change(admin, one, "discard")
    assert not file_path(one.pk).exists()
    FileRun.objects.filter(pk=two.pk).update(changed_at=clock.now() - file_runs.KEEP_UPLOADS * 2)
    with TestCase.captureOnCommitCallbacks(execute=True):
        runs_expire()
    assert (file_path(two.pk).exists(), file_path(three.pk).exists()) == (False, True)
    agent_erase(agent=ada, by=system, reason="Asked.")
    runs_expire()
    assert list((Path(settings.DATA_DIR) / "files").iterdir()) == []


def test_an_import_belongs_to_its_agent_and_to_those_with_the_right(admin, ada, bob, charlie, actor, system):
    agent_create(slug="other", name="Other", prompt="Another.", by=system)
    announce(admin, 9)
    run = latest()
    assert part(admin, run, 0, b"123", slug="other").status_code == 404
    assert admin.get(reverse("agent_import", args=["other", run.pk])).status_code == 404
    assert part(browser(bob), run, 0, b"123").status_code == 403
    assert upload(browser(bob), lines(FACT)).status_code == 403
    for by in (actor, Principal.of_system("anything")):
        with pytest.raises(file_runs.NotAllowed):
            file_runs.import_create(agent=ada, file_name="a", file_bytes=1, by=by)
    FileRun.objects.filter(pk=run.pk).update(persona="subconscious")
    charlie.groups.clear()
    charlie.user_permissions.add(Permission.objects.get(codename="import_memory"))
    assert browser(charlie).get(run.get_absolute_url()).status_code == 404, "it is the subconscious's"
