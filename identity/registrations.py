"""What other apps add to identity while they are set up, so that identity depends on none of them."""

from typing import Any

profile_sources: list[str] = []
"""Dotted paths of functions, which return the texts about an agent's people by category: "person", "preference" and
"rule"."""
new_agent_config: dict[str, Any] = {}
"""The settings that a new agent begins with."""
