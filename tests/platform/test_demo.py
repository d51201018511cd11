"""The demo: loaded through services and API, rich, and only into an empty database."""

import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import RequestFactory
from django.urls import reverse

from context.models import ContextRun, MemoryUsage
from identity.models import Agent, ChangeProposal, DemoTour, IdentityVersion
from identity.principal import Principal
from memory.models import Censor, Decision, Episode, Event, Fact, LongTermEntry, LoopSummary, Procedure, SearchItem
from nousweb.console.common.demo_tour import tour_panel
from nousweb.demo import story
from nousweb.demo.demo_access import LOGINS, demo_info
from tests.product import PROJECT


def test_demo_tells_of_yesterday_at_whatever_hour_it_is_loaded():
    asked = story.QUESTIONS[-1]
    [disk] = [loop for loop in story.LOOPS if "Disk of orders-1 is 91 % full." in loop.turns[0]]
    assert (asked[2], disk.days_ago - asked[0]) == ("What happened yesterday?", pytest.approx(1))


@pytest.mark.django_db
def test_demo_has_a_history_of_every_store_and_both_personas(client, settings, tmp_path):
    """With four eyes too, which are off while it is loaded: its story is of one person in each role."""
    settings.DATA_DIR, settings.FOUR_EYES = tmp_path, True
    call_command("loaddemo")
    agent = Agent.objects.get()
    assert IdentityVersion.objects.filter(restores__isnull=False).exists()
    pending = ChangeProposal.objects.pending()
    assert set(pending.values_list("risk", flat=True)) == {"low", "medium", "high"}
    assert ChangeProposal.objects.filter(status=ChangeProposal.Status.APPLIED).exists()
    assert set(Fact.objects.profile().values_list("category", flat=True)) == {"person", "preference", "rule"}
    for model in (Event, Fact, LoopSummary):
        assert set(model.objects.values_list("persona", flat=True)) == {"actor", "subconscious"}, model
    for model in (Censor, Decision, Episode, Procedure, ContextRun, MemoryUsage):
        assert model.objects.exists(), model
    assert LongTermEntry.objects.count() == Event.objects.count()
    assert not SearchItem.objects.exclude(status="ready").exists()
    days = (Event.objects.latest("ts").ts - Event.objects.earliest("ts").ts).days
    assert days > 28
    info = demo_info()
    assert info is not None
    assert agent.slug in info
    assert {expectation.results.get(is_current=True).state for expectation in agent.expectations.all()} == {"passed"}
    # The first line says which log-in to use.
    assert re.match(r"  Log in, first as reviewer\n    reviewer +\S+ +reviewer\n", info)
    words = dict(line.split()[:2] for line in info.splitlines() if len(line.split()) == 3)
    assert len({words[name] for name, _ in LOGINS}) == len(LOGINS)
    for name, _ in LOGINS:
        person = User.objects.get(username=name)
        assert [other for other, _ in LOGINS if person.check_password(words[other])] == [name]
    # Its people are guided, and nothing of the story counts as theirs.
    for tour in DemoTour.objects.select_related("person"):
        shown = tour_panel(Principal.of_user(tour.person), [agent], RequestFactory().get("/"))
        assert shown is not None
        assert not any(state["done"] for state in shown["steps"])
        assert shown["url"]
    assert DemoTour.objects.count() == 4
    # Somebody can open People.
    client.force_login(User.objects.get(username="owner"))
    assert client.get(reverse("people")).status_code == 200
    with pytest.raises(CommandError, match="not empty"):
        call_command("loaddemo")


def test_make_demo_finds_its_port_taken_before_it_installs_anything(tmp_path):
    recipe = subprocess.run(["make", "--dry-run", "demo"], cwd=PROJECT, check=True, capture_output=True, text=True)
    program = "nousweb/runtime/bootstrap.py"
    assert f"{program} --demo" in recipe.stdout
    (tmp_path / program).parent.mkdir(parents=True)
    shutil.copy(PROJECT / program, tmp_path / program)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        finished = subprocess.run(
            [sys.executable, "-I", tmp_path / program, "--demo"],
            env=os.environ | {"NOUS_PORT": port, "NOUS_HOST": ""},
            check=False, capture_output=True, text=True,
        )  # fmt: skip
    assert finished.returncode == 1
    assert f"Port {port} of 127.0.0.1 cannot be used" in finished.stderr
    assert "NOUS_PORT" in finished.stderr
    assert not (tmp_path / ".venv").exists()


def test_pip_installs_the_lock_where_uv_cannot(tmp_path):
    """Nothing asks a network here: the only package is a file, and no version of uv is named."""
    program, wheel = tmp_path / "nousweb/runtime/bootstrap.py", tmp_path / "tiny-1.0-py3-none-any.whl"
    program.parent.mkdir(parents=True)
    shutil.copy(PROJECT / "nousweb/runtime/bootstrap.py", program)
    with zipfile.ZipFile(wheel, "w") as files:
        files.writestr("tiny.py", "")
        files.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        files.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        files.writestr("tiny-1.0.dist-info/RECORD", "")
    lock = tmp_path / "requirements/run.lock"
    lock.parent.mkdir()
    lock.with_name("dev.lock").write_text("")
    lock.write_text(f"tiny @ {wheel.as_uri()} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    finished = subprocess.run(
        [sys.executable, "-I", program],
        env=os.environ | {"PATH": os.defpath},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    assert "once more, with pip" in finished.stderr
    subprocess.run([tmp_path / ".venv/bin/python", "-c", "import tiny"], check=True)
