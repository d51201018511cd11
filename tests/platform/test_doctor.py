"""`doctor` names what is wrong and what to do, and goes on after a check that breaks."""

import io

import pytest
from django.core.management import call_command

from tests.factories import make_person

pytestmark = pytest.mark.django_db


def doctor():
    """What it prints, and its exit code."""
    out = io.StringIO()
    try:
        call_command("doctor", stdout=out)
    except SystemExit as end:
        return out.getvalue(), end.code
    return out.getvalue(), 0


def test_doctor_finds_nothing_wrong_with_a_working_installation(ada, settings, tmp_path):
    make_person("charlie", "Administrator")
    settings.DATA_DIR, settings.PORT = tmp_path, 1
    said, code = doctor()
    assert code == 0, said
    assert "ok     Migrations: all applied" in said
    assert "384 dimensions" in said
    assert "ok     Agents: 1" in said
    assert "note   Web server: no answer" in said
    assert "Everything that is needed works." in said


def test_doctor_says_what_to_do(db, settings, tmp_path, monkeypatch):
    settings.DATA_DIR, settings.PORT = tmp_path / "missing", 1

    def away(name):
        raise RuntimeError("The model is away.")

    monkeypatch.setattr("nousweb.management.commands.doctor.embedder_named", away)
    said, code = doctor()
    assert code == 1
    assert "WRONG  Embedder: RuntimeError: The model is away." in said
    assert "WRONG  Disk of the data folder" in said
    assert "createagent" in said
    assert "2 wrong." in said
