"""The location of this installation's files: beside the code in a clone, inside the package if it was installed."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CLONE = PACKAGE.parent
CLONED = (CLONE / "manage.py").is_file()

RESOURCES = CLONE if CLONED else PACKAGE / "resources"
"""The folder that holds `templates` and `static`."""
CLIENT = CLONE / "clients" / "python" if CLONED else RESOURCES / "client"
"""The source of the Python client."""
CLIENT_ARCHIVE = "nous-client.zip"
"""The archive of it that the web server has under `/static/`."""


def default_data_folder() -> Path:
    """`var` in a clone; else the user's own data folder, as the platform has it."""
    if CLONED:
        return CLONE / "var"
    import platformdirs

    return Path(platformdirs.user_data_dir("nous-web", appauthor=False))
