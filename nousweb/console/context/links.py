"""Pages of the console for the items of a prompt."""

from django.urls import NoReverseMatch, reverse

from identity.policy.sections import Section
from memory.models import ItemType
from nousweb.console.common.memory_types import TYPE_PAGES

PAGES = {**{key: one.page for key, one in TYPE_PAGES.items()}, "censor": "agent_censor", "loop": "agent_loop"}
"""URL name of the page of each type of item, by agent and id."""
SECTION_PAGES = {"task": "agent_working", "working": "agent_working", "thread": "agent_working"}
"""URL name of the page on which such an item stands among others, by agent."""


def item_url(slug: str, item_type: str, item_id: str) -> str:
    """The page for actions on a memory; "" for items that are no memories of their own, such as a loop."""
    return reverse("agent_context_item", args=[slug, item_type, item_id]) if item_type in ItemType.values else ""


def memory_item_url(slug: str, item_type: str, item_id: str) -> str:
    """The page of an item of a prompt; "" where it has none."""
    section = item_id.split(":", 1)[0]
    try:
        if item_type in PAGES:
            return reverse(PAGES[item_type], args=[slug, item_id])
        if item_type in SECTION_PAGES:
            return reverse(SECTION_PAGES[item_type], args=[slug])
        if item_type == "identity" and section in Section.values:
            return reverse("section_history", args=[slug, section])
    except NoReverseMatch:
        return ""
    return ""
