"""The wheel has all that a clone has, and works without one."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The content of a wheel that was built just now."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def run(unpacked, home, *arguments):
    """A program as an ordinary user runs it, with the installed package and nothing of the clone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NOUS_", "DATABASE_", "DJANGO_"))}
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=home,
        env=kept | {"PYTHONPATH": str(unpacked), "HOME": str(home), "XDG_DATA_HOME": str(home / "data")},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_wheel_holds_every_file_of_the_product(unpacked):
    held = {str(file.relative_to(unpacked)) for file in unpacked.rglob("*") if file.is_file()}
    listed = subprocess.run(["git", "ls-files"], cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    for name in listed.splitlines():
        place = name.partition("/")[0]
        if place in ("nousweb", "identity", "memory", "context") and (PROJECT / name).is_file():
            assert name in held, name
        elif place in ("templates", "static"):
            assert f"nousweb/resources/{name}" in held, name
    assert not any(name.startswith(("tests/", "benchmarks/", "docs/")) for name in held)
    (metadata,) = unpacked.glob("*.dist-info/entry_points.txt")
    assert "nous = nousweb.runtime.command_line:main" in metadata.read_text()


def test_installed_package_keeps_its_data_with_the_user_and_finds_its_pages(unpacked, tmp_path):
    show = (
        "import django; django.setup(); from django.conf import settings; from django.template import engines;"
        "from django.contrib.staticfiles import finders; import nousweb;"
        "print(nousweb.__file__); print(settings.DATA_DIR); print(finders.find('favicon.svg'));"
        "print(engines['django'].get_template('base.html').origin.name)"
    )
    environment = "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'nousweb.settings'; "
    environment += "os.environ['DATABASE_URL'] = 'postgresql:///unused'; "
    finished = run(unpacked, tmp_path, "-c", environment + show)
    assert finished.returncode == 0, finished.stderr
    package, data, icon, page = finished.stdout.split()
    assert Path(data) == tmp_path / "data" / "nous-web"
    for path in (package, icon, page):
        assert Path(path).is_relative_to(unpacked)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("--help", 0, "doctor"),
        ("createagent --help", 0, "usage: nous createagent"),
    ],
)
def test_nous_command_speaks_without_touching_anything(unpacked, tmp_path, arguments, code, said):
    program = "import sys; from nousweb.runtime.command_line import main; main(['nous', *sys.argv[1:]])"
    finished = run(unpacked, tmp_path, "-c", program, *arguments.split())
    assert finished.returncode == code, finished.stderr
    assert said in finished.stdout + finished.stderr
    assert not (tmp_path / "data").exists()
