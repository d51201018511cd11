"""The sections of a prompt as people read them."""

from collections.abc import Mapping

from context.engine.section_budgets import MEMORY_SECTIONS
from context.expectations.policy import IDENTITY_PARTS

PROMPT_SECTIONS: Mapping[str, str] = {
    "identity": "Identity",
    "user_profile": "User Profile",
    "censors": "Active Censors",
    "frame": "Current Frame",
    "working_memory": "Working Memory",
    "conversation": "Recent Conversation",
    **{one.key: one.label for one in MEMORY_SECTIONS.values()},
}
"""As prompts head them."""


def section_label(name: str) -> str:
    """The label of a section of the prompt, or of one of the identity ("identity.values")."""
    own = IDENTITY_PARTS.get(name)
    return f"Identity: {own}" if own else PROMPT_SECTIONS.get(name, name)
