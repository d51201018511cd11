"""The presentation of each type of memory: its name, its pages and its counts on the home page.

Navigation, links, search, the index, the home page and the page that erases an agent derive from `TYPE_PAGES`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from django.db.models import Model, Q
from django.db.models.functions import Now
from django.urls import reverse

from context.engine.section_budgets import MEMORY_SECTIONS
from context.expectations.policy import IDENTITY_PARTS
from memory.models import Fact, ItemType, expired_q
from memory.types import MEMORY_TYPES

Page = tuple[str, str, str]
"""Label, URL name and right of a page of the navigation."""
State = tuple[str, str, Q]
"""Name, colour and condition of a state; the first that holds counts."""

DEFAULT_STATES: tuple[State, ...] = (("active", "seg-1", Q(active=True)), ("hidden", "seg-8", Q()))


@dataclass(frozen=True, slots=True)
class TypePages:
    """A type of memory in the console; `label` is its plural.

    `recorded` names the column by which the home page says when a row came to be known. `more_views` are other lists of
    the same. `sub_pages` are the addresses below the list, beside that of one memory.
    """

    key: ItemType
    label: str
    recorded: str = "created_at"
    states: tuple[State, ...] = DEFAULT_STATES
    more_views: tuple[Page, ...] = ()
    sub_pages: tuple[str, ...] = ()

    @property
    def model(self) -> type[Model]:
        return MEMORY_TYPES[self.key].model

    @property
    def permission(self) -> str:
        """The right to see it."""
        return MEMORY_TYPES[self.key].permission("view")

    @property
    def page(self) -> str:
        """URL name of the page of one memory, by agent and id."""
        return f"agent_{self.key.value}"

    @property
    def list_page(self) -> str:
        """URL name of the list, by agent."""
        return f"agent_{self.key.value}s"


_OWN_PAGES: Mapping[str, TypePages] = MappingProxyType(
    {
        one.key.value: one
        for one in (
            TypePages(
                ItemType.FACT,
                "Facts",
                recorded="recorded_at",
                states=(
                    ("expired", "seg-3", Q(expired_q(Fact, Now()), active=True)),
                    ("not yet valid", "seg-2", Q(active=True, valid_from__gt=Now())),
                    ("active", "seg-1", Q(active=True)),
                    ("marked as wrong", "seg-6", Q(invalidated_at__isnull=False)),
                    ("replaced", "seg-8", Q()),
                ),
                more_views=(
                    ("Ending soon", "agent_endings", "memory.view_fact"),
                    ("Replaced facts", "agent_supersessions", "memory.view_factchange"),
                ),
                sub_pages=(
                    "agent_fact_add",
                    "agent_subject",
                    "agent_fact_change",
                    "agent_fact_erase",
                    "agent_subject_erase",
                    "agent_project_erase",
                ),
            ),
            TypePages(
                ItemType.DECISION,
                "Decisions",
                states=(
                    ("hidden", "seg-8", Q(active=False)),
                    ("to review", "seg-3", Q(reviewed_at__isnull=True)),
                    ("reviewed", "seg-1", Q()),
                ),
            ),
            TypePages(ItemType.PROCEDURE, "Procedures", sub_pages=("agent_procedure_edit",)),
            TypePages(
                ItemType.EPISODE,
                "Episodes",
                sub_pages=("agent_episode_edit", "agent_episode_close"),
                states=(
                    ("hidden", "seg-8", Q(active=False)),
                    ("open", "seg-2", Q(ended_at__isnull=True)),
                    ("closed", "seg-1", Q()),
                ),
            ),
            TypePages(
                ItemType.EVENT,
                "Events",
                recorded="recorded_at",
                states=(("kept", "seg-1", Q()),),
                more_views=(("Working memory", "agent_working", "memory.view_workingmemory"),),
                sub_pages=("agent_loop", "agent_event_erase"),
            ),
            TypePages(
                ItemType.DOCUMENT,
                "Documents",
                states=(
                    ("expired", "seg-3", Q(active=True, expires_at__lte=Now())),
                    ("active", "seg-1", Q(active=True)),
                    ("replaced", "seg-8", Q(superseded_by__isnull=False)),
                    ("retired", "seg-6", Q()),
                ),
                sub_pages=("agent_document_erase", "agent_document_expiry"),
            ),
        )
    }
)
TYPE_PAGES: Mapping[str, TypePages] = MappingProxyType(
    {
        **_OWN_PAGES,
        **{key: TypePages(one.key, f"{one.key.label}s") for key, one in MEMORY_TYPES.items() if key not in _OWN_PAGES},
    }
)
"""By key, in the order in which people see them; last those that need no more than their label."""

PARENT_PAGES: Mapping[str, str] = {
    name: one.list_page for one in TYPE_PAGES.values() for name in (one.page, *one.sub_pages)
}
"""The list to which a page belongs."""


def memory_url(slug: str, item_type: str, item_id: str) -> str:
    """The page of one memory. Raises KeyError for an unknown type, NoReverseMatch for an invalid id."""
    return reverse(TYPE_PAGES[item_type].page, args=[slug, item_id])


PROMPT_SECTIONS: Mapping[str, str] = {
    "identity": "Identity",
    "user_profile": "User Profile",
    "censors": "Active Censors",
    "frame": "Current Frame",
    "reported": "Reported by Tools, Imports and the Web",
    "working_memory": "Working Memory",
    "recent": "Recent Conversations",
    "conversation": "Recent Conversation",
    **{section.key: section.label for section in MEMORY_SECTIONS.values()},
}
"""As prompts head them."""


def section_label(name: str) -> str:
    """The label of a section of the prompt, or of one of the identity ("identity.values")."""
    own = IDENTITY_PARTS.get(name)
    return f"Identity: {own}" if own else PROMPT_SECTIONS.get(name, name)
