"""Whether the demo may and should be loaded, and how to get into it; demo_loader.py fills it."""

import json
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User

from identity.models import Agent
from nousweb.access.roles import OWNER
from nousweb.demo.story import AGENT_SLUG

LOGINS = (("viewer", "Viewer"), ("reviewer", "Reviewer"), ("admin", "Administrator"), (OWNER.lower(), OWNER))


def demo_file() -> Path:
    """The file of the demo's generated secrets, readable by its owner only, which are shown at each start."""
    return Path(settings.DATA_DIR) / "demo.json"


class DemoInProduction(RuntimeError):
    """The demo's log-ins, whose passwords lie in a file and stand on a terminal, have no place in production."""


def demo_check() -> None:
    """Raise DemoInProduction if NOUS_PRODUCTION is on."""
    if settings.PRODUCTION:
        raise DemoInProduction(
            "The demo makes log-ins whose passwords are printed, so it is not for production: start without --demo, or"
            " without NOUS_PRODUCTION."
        )


def demo_info() -> str | None:
    """The logins, the token and a call that works when pasted; None when this is no demo."""
    try:
        kept = json.loads(demo_file().read_text())
    except (FileNotFoundError, ValueError):
        return None
    host = "127.0.0.1" if settings.HOST in ("", "0.0.0.0") else settings.HOST  # noqa: S104
    ordered = sorted(LOGINS, key=lambda login: login[1] != "Reviewer")
    logins = "\n".join(f"    {name:<9} {kept['passwords'][name]}    {role.lower()}" for name, role in ordered)
    return (
        f"  Log in, first as {ordered[0][0]}\n{logins}\n\n"
        f"  Agent's token ({AGENT_SLUG}, actor)\n    {kept['token']}\n\n"
        "  Ask for a prompt\n"
        f"    curl -s http://{host}:{settings.PORT}/api/context \\\n"
        f"      -H 'Authorization: Bearer {kept['token']}' -H 'Content-Type: application/json' \\\n"
        """      -d '{"session_id": "first", "input": "Checkout is slow. What do we know?"}'\n"""
    )


def demo_wanted() -> bool:
    """Whether the database is still empty enough for the demo: no agent and nobody who could own one."""
    return not Agent.objects.exists() and not User.objects.exists()
