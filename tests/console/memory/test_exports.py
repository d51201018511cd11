"""Exporting an agent on its pages: written by the worker, downloaded, and gone when anything of it is erased."""

import json
import os

import pytest
from django.test import TestCase
from django.urls import reverse

from identity.models import AuditEvent
from identity.principal import Principal
from identity.services.agents import agent_create
from memory.jobs import JOB_LEASE
from memory.lifecycle.runner import due_work_queue, job_run
from memory.models import FileRun, Job
from memory.services.erasure import agent_erase, fact_erase
from memory.services.facts import fact_learn
from memory.transfer import file_runs
from memory.transfer.agent_import import agent_import
from memory.transfer.file_runs import KEEP_EXPORTS, export_start, file_path, runs_expire
from nousweb.lib import clock
from nousweb.lib.errors import NotAllowed
from tests.http import browser


@pytest.fixture
def admin(ada, charlie, system, monkeypatch):
    # How far it is, another connection writes down, which sees nothing of the test's transaction.
    monkeypatch.setattr(file_runs, "PROGRESS_SECONDS", 60.0)
    fact_learn(agent=ada, content="The mole is three hundred metres long.", by=system, persona="actor")
    fact_learn(agent=ada, content="The keeper is rarely asked twice.", by=system, persona="subconscious")
    return browser(charlie)


def start(client, **given):
    client.post(reverse("agent_exports", args=["ada"]), given)
    return FileRun.objects.latest("created_at")


def work():
    with TestCase.captureOnCommitCallbacks(execute=True):
        while job := Job.objects.filter(handler="export_run", status="queued").first():
            assert job_run(job.pk) == "done"


def exported(client, **given):
    run = start(client, **given)
    work()
    run.refresh_from_db()
    return run


def address(run, name, *more):
    return reverse(name, args=["ada", run.pk, *more])


def text_of(answer):
    return " ".join(answer.content.decode().split())


def change(client, run, what):
    with TestCase.captureOnCommitCallbacks(execute=True):
        return text_of(client.post(address(run, "agent_export_change", what), follow=True))


def test_an_agent_is_exported_downloaded_and_imported_again(admin, ada, system):
    run = start(admin)
    assert (run.status, run.author_name) == ("running", "charlie")
    assert "hx-trigger" in text_of(admin.get(run.get_absolute_url()))
    assert "is already running" in text_of(admin.post(reverse("agent_exports", args=["ada"]), follow=True))
    work()
    run.refresh_from_db()
    assert (run.status, run.error) == ("done", "")
    assert file_path(run.pk).stat().st_mode & 0o777 == 0o600
    assert "Download" in text_of(admin.get(address(run, "agent_export_state")))
    answer = admin.get(address(run, "agent_export_file"))
    assert answer["Content-Disposition"].startswith('attachment; filename="ada-')
    content = b"".join(answer.streaming_content).decode()
    lines = content.splitlines()
    assert (len(lines), len(content.encode())) == (run.position, run.file_bytes)
    assert json.loads(lines[0])["format"] == "nous-agent"
    for text in ("three hundred metres", "rarely asked"):
        assert text in content
    copy, counts = agent_import(path=file_path(run.pk), by=Principal.of_command(), slug="ada-copy")
    assert (copy.slug, counts["fact"]) == ("ada-copy", 2)
    actions = AuditEvent.objects.filter(action__startswith="memory_export").order_by("pk")
    assert [(each.action, each.author_name) for each in actions] == [
        ("memory_export.start", "charlie"), ("memory_export.download", "charlie"),
    ]  # fmt: skip


def test_a_file_of_the_actor_holds_nothing_of_the_subconscious(admin):
    run = exported(admin, persona="actor")
    content = file_path(run.pk).read_text()
    assert "three hundred metres" in content
    assert "rarely asked" not in content
    assert "audit trail covers both" in text_of(
        admin.post(reverse("agent_exports", args=["ada"]), {"persona": "actor", "with_audit": "on"}, follow=True)
    )


def test_what_is_erased_stays_in_no_file(admin, ada, system):
    run = exported(admin)
    waiting = start(admin)
    fact = ada.facts.get(persona="actor")
    with TestCase.captureOnCommitCallbacks(execute=True):
        fact_erase(fact=fact, by=system, reason="Asked.")
    run.refresh_from_db()
    waiting.refresh_from_db()
    assert (run.status, waiting.status) == ("discarded", "stopped")
    assert not file_path(run.pk).exists()
    assert "file of this export no longer exists" in text_of(admin.get(address(run, "agent_export_file"), follow=True))
    work()
    assert not file_path(waiting.pk).exists()
    run = exported(admin)
    assert "three hundred metres" not in file_path(run.pk).read_text()
    with TestCase.captureOnCommitCallbacks(execute=True):
        agent_erase(agent=ada, by=system, reason="Asked.")
    assert not file_path(run.pk).exists()


def test_nothing_is_left_of_an_export_whose_workers_were_killed(admin):
    run = start(admin)
    # As a worker leaves it that is killed while it writes.
    half = file_runs.part_of(file_path(run.pk))
    with open(file_runs.file_open(half, os.O_WRONLY), "w") as file:
        file.write("The mole is three hundred metres long.")
    dead = {"status": "running", "attempts": JOB_LEASE.max_attempts, "next_attempt_at": clock.now()}
    Job.objects.filter(key=file_runs.job_key(run)).update(**dead)
    due_work_queue()
    run.refresh_from_db()
    assert (run.status, half.exists()) == ("failed", False)


def test_a_file_that_was_written_while_something_was_erased_is_given_up(admin, ada, system, monkeypatch):
    run = start(admin)
    export = file_runs.agent_export

    def erased_meanwhile(**given):
        yield from export(**given)
        fact_erase(fact=ada.facts.get(persona="actor"), by=system, reason="Asked.")

    with monkeypatch.context() as patch:
        patch.setattr(file_runs, "agent_export", erased_meanwhile)
        work()
    run.refresh_from_db()
    assert run.status == "stopped"
    assert not file_path(run.pk).exists()


def test_an_export_is_cancelled_deleted_and_expires(admin, monkeypatch):
    run = start(admin)
    assert "The export stops" in change(admin, run, "stop")
    work()
    run.refresh_from_db()
    assert (run.status, file_path(run.pk).exists()) == ("stopped", False)
    assert "it cannot be stopped" in change(admin, run, "stop")
    run = exported(admin)
    assert "The file was deleted" in change(admin, run, "discard")
    assert not file_path(run.pk).exists()
    run = exported(admin)
    FileRun.objects.filter(pk=run.pk).update(changed_at=clock.now() - KEEP_EXPORTS)
    assert "file of this export no longer exists" in text_of(admin.get(address(run, "agent_export_file"), follow=True))
    assert runs_expire()
    run.refresh_from_db()
    assert (run.status, file_path(run.pk).exists()) == ("discarded", False)
    monkeypatch.setattr(file_runs, "EXPORT_SECONDS", 0.0)
    monkeypatch.setattr(file_runs, "PROGRESS_SECONDS", 0.0)
    run = exported(admin)
    assert run.status == "failed"
    assert "nous exportagent" in text_of(admin.get(run.get_absolute_url()))


def test_an_export_belongs_to_its_agent_and_to_those_with_the_right(admin, ada, bob, actor, system):
    agent_create(slug="other", name="Other", prompt="Another.", by=system)
    run = exported(admin)
    for name in ("agent_export", "agent_export_state", "agent_export_file"):
        assert admin.get(reverse(name, args=["other", run.pk])).status_code == 404
        assert browser(bob).get(address(run, name)).status_code == 403
    assert browser(bob).post(reverse("agent_exports", args=["ada"])).status_code == 403
    for by in (actor, Principal.of_system("anything")):
        with pytest.raises(NotAllowed):
            export_start(agent=ada, by=by)
