"""What of the containers can be checked where images cannot be built: their files agree with the product."""

import re

import pytest
import yaml
from django.core.management import get_commands

from tests.product import PROJECT

COMPOSE = yaml.safe_load((PROJECT / "compose.yaml").read_text())
SETTINGS = set(re.findall(r"(?m)^#?((?:NOUS_|DATABASE_)\w+)=", (PROJECT / ".env.example").read_text()))
OF_COMPOSE = {"NOUS_DB_PASSWORD", "NOUS_DB_OWNER_PASSWORD", "NOUS_PUBLISH"}
"""Variables that compose.yaml alone reads."""
OURS = [name for name, service in COMPOSE["services"].items() if "build" in service]


def test_compose_sets_only_variables_that_the_product_reads():
    assert OURS == ["migrate", "web", "worker", "indexes"]
    for name in OURS:
        given = set(COMPOSE["services"][name]["environment"])
        assert given <= SETTINGS, f"{name}: {given - SETTINGS} are no settings"
    asked = set(re.findall(r"\$\{(\w+)", (PROJECT / "compose.yaml").read_text()))
    assert asked <= SETTINGS | OF_COMPOSE
    documented = (PROJECT / "docs/operations.md").read_text()
    assert [name for name in sorted(OF_COMPOSE) if name not in documented] == []


@pytest.mark.parametrize("name", OURS)
def test_compose_runs_commands_that_exist(name):
    service = COMPOSE["services"][name]
    if "entrypoint" in service:
        assert service["entrypoint"][1:] == ["-m", "gunicorn", "-c", "python:nousweb.runtime.gunicorn"]
    else:
        command = service["command"][0]
        assert command in get_commands()


def test_only_what_migrates_and_indexes_knows_the_owner_of_the_tables():
    knowing = [name for name in OURS if "DATABASE_OWNER_URL" in COMPOSE["services"][name]["environment"]]
    assert knowing == ["migrate", "indexes"]
    for name in ("web", "worker", "indexes"):
        waits = COMPOSE["services"][name]["depends_on"]
        assert waits == {"migrate": {"condition": "service_completed_successfully"}}


def test_containerfile_copies_what_exists_and_runs_as_an_ordinary_user():
    lines = (PROJECT / "Containerfile").read_text().splitlines()
    copied = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    for name in copied:
        assert (PROJECT / name).exists(), name
    packages = {"nousweb", "identity", "memory", "context", "templates", "static", "pyproject.toml"}
    assert packages <= set(copied)
    assert "USER nous" in lines
    assert lines.index("USER nous") < lines.index('ENTRYPOINT ["nous"]')
    environment = next(line for line in lines if line.startswith("ENV "))
    assert {word.split("=")[0] for word in environment.split()[1:]} - {"PYTHONUNBUFFERED"} <= SETTINGS
