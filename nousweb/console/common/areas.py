"""The areas of the console, which the rail lists, and the pages of each, which are its tabs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nousweb.console.common import memory_types

OWNERS, ADMINS = "owners", "admins"
"""Rights of no permission: to be an owner, and to use Django's admin."""


@dataclass(frozen=True, slots=True)
class AreaPage:
    """A page of an area: its label, URL name and right.

    `is_apart`: it has no tab, since other pages lead to it. `views` are other pages that are reached from it, as
    (label, URL name, right), itself first. `parts` are parts of it, as (label, query, right). `words` are other names
    that a person may look for.
    """

    label: str
    name: str
    right: str = ""
    views: tuple[memory_types.Page, ...] = ()
    parts: tuple[memory_types.Page, ...] = ()
    words: str = ""
    is_apart: bool = False


@dataclass(frozen=True, slots=True)
class Area:
    """A link of the rail and the pages behind it; it leads to the first that a person may see.

    Pages `of_agent` need an agent, as tabs; `page` is then the page that stands for them while there is none.
    """

    label: str
    pages: tuple[AreaPage, ...]
    of_agent: bool = False
    page: AreaPage | None = None


VIEW_INDEX, VIEW_FACT = "memory.view_searchitem", "memory.view_fact"
VIEW_RUN, VIEW_AUDIT = "context.view_contextrun", "identity.view_auditevent"
VIEW_PROPOSAL, VIEW_REVIEW = "identity.view_changeproposal", "memory.view_memoryreview"
TALK = "context.talk_to_agent"
PLAYGROUND_MODES = (
    ("Try a change", "agent_playground_compare", "identity.view_identityversion"),
    ("One question", "agent_playground", TALK),
)
INBOX_PARTS = (
    ("Start reviewing", "start=1", VIEW_PROPOSAL),
    ("Identity", "view=identity", VIEW_PROPOSAL),
    ("Applied without review", "view=applied", VIEW_PROPOSAL),
    ("Reviews", "view=reviews", VIEW_REVIEW),
    ("Censors", "view=censors", VIEW_REVIEW),
    ("Assigned to me", "assignee=me", ""),
    ("Mentions", "view=mentioned", ""),
    ("Opinion requests", "view=opinions", ""),
    ("Snoozed", "view=snoozed", ""),
    ("Held back", "status=undecided", VIEW_REVIEW),
    ("Decided", "status=decided", ""),
)
_TYPES = {
    one.key.value: AreaPage(
        one.label,
        one.list_page,
        one.permission,
        views=((f"All {one.label.lower()}", one.list_page, one.permission), *one.more_views) if one.more_views else (),
    )
    for one in memory_types.TYPE_PAGES.values()
}

AREAS: tuple[Area, ...] = (
    Area(
        "Home",
        (
            AreaPage("Home", "home", words="today dashboard overview"),
            AreaPage("Usage", "usage", VIEW_RUN, words="figures tokens cost charts"),
        ),
    ),
    Area("Inbox", (AreaPage("Inbox", "inbox", VIEW_PROPOSAL, parts=INBOX_PARTS, words="review queue proposals"),)),
    Area(
        "Identity",
        (
            AreaPage("Identity", "agent_identity", "identity.view_identityversion"),
            AreaPage("Changes", "agent_changes", "identity.view_agent", words="change feed"),
        ),
        of_agent=True,
        page=AreaPage("Agents", "agents", "identity.view_agent"),
    ),
    Area(
        "Prompts",
        (
            AreaPage("Prompts", "agent_context_runs", VIEW_RUN, words="log context runs sent"),
            AreaPage("Inspector", "agent_context", "context.assemble_context", words="try context"),
            AreaPage(
                "Playground", "agent_playground_compare", TALK, views=PLAYGROUND_MODES, words="try a change, chat"
            ),
            AreaPage("Compare", "agent_context_compare", VIEW_RUN, words="difference of two prompts"),
            AreaPage("Similar tasks", "agent_context_fingerprints", VIEW_RUN, words="fingerprints"),
            AreaPage("Pins", "agent_context_pins", "context.assemble_context", words="always never"),
        ),
        of_agent=True,
    ),
    Area(
        "Memory",
        (
            _TYPES["fact"],
            AreaPage(
                "Subjects",
                "agent_subjects",
                VIEW_FACT,
                views=(("Subjects", "agent_subjects", VIEW_FACT), ("Users", "agent_users", "memory.manage_user")),
                words="entities people things assign owner tenants",
            ),
            *(page for key, page in _TYPES.items() if key != "fact"),
            AreaPage(
                "Health",
                "agent_health",
                VIEW_FACT,
                views=(
                    ("Findings", "agent_health", VIEW_FACT),
                    ("Tokens by memory", "agent_health_ledger", VIEW_FACT),
                    ("Search index", "agent_index", VIEW_INDEX),
                ),
            ),
            AreaPage("Search", "agent_search", VIEW_INDEX, words="find recall", is_apart=True),
        ),
        of_agent=True,
    ),
    Area(
        "Expectations",
        (AreaPage("Expectations", "agent_expectations", "context.view_expectation", words="tests regression"),),
        of_agent=True,
    ),
    Area(
        "Settings",
        (
            AreaPage("General settings", "agent_settings", "identity.change_agent", words="name kind slug"),
            AreaPage(
                "Prompt settings", "agent_context_settings", "identity.change_agent", words="budgets tokens profile"
            ),
            AreaPage("Consent", "agent_consent", "identity.change_agent", words="pending approve new memories"),
            AreaPage("Censors", "agent_censors", "memory.view_censor", words="rules guard block"),
            AreaPage("Connect", "agent_connect", "identity.view_agent", words="snippets mcp client"),
            AreaPage("Tokens", "agent_tokens", "identity.view_apitoken", words="keys api"),
            AreaPage("Webhooks", "agent_webhooks", "identity.manage_webhook"),
            AreaPage("Import and export", "agent_imports", "memory.import_memory", words="files upload download"),
        ),
        of_agent=True,
    ),
    Area(
        "Audit",
        (
            AreaPage("Audit trail", "audit", VIEW_AUDIT, words="activity log history who"),
            AreaPage("Integrity", "integrity", VIEW_AUDIT, words="seals verify"),
        ),
    ),
    Area(
        "Administration",
        (
            AreaPage("People", "people", OWNERS, words="users roles invitations"),
            AreaPage("Log-in", "second_factor_requirements", OWNERS, words="second factor two provider"),
            AreaPage("Background work", "lifecycle", "memory.view_job", words="jobs schedules lifecycle worker"),
            AreaPage("Prompt profiles", "context_profiles", "context.view_contextprofile", words="context"),
            AreaPage("OAuth clients", "oauth_clients", "identity.view_apitoken", words="applications"),
            AreaPage("API", "api-1:openapi-view", words="reference documentation"),
            AreaPage("Database", "admin:index", ADMINS, words="admin tables"),
        ),
    ),
)
"""The rail, from top to bottom."""

PARENT_PAGES = {
    "agent_new": "agents",
    "agent_initiate": "agent_identity",
    "section_history": "agent_identity",
    "section_compare": "agent_identity",
    "section_propose": "agent_identity",
    "section_rollback": "agent_identity",
    "agent_token_revoke": "agent_tokens",
    "agent_token_rotate": "agent_tokens",
    "agent_webhook": "agent_webhooks",
    "agent_webhook_edit": "agent_webhooks",
    "agent_webhook_delete": "agent_webhooks",
    "proposal": "inbox",
    "audit_event": "audit",
    "person": "people",
    "oauth_client_delete": "oauth_clients",
    "memory_review_detail": "inbox",
    "inbox_compare": "inbox",
    "automatic_decisions": "inbox",
    "agent_erase": "agent_settings",
    **memory_types.PARENT_PAGES,
    "agent_event_wrong": "agent_events",
    "agent_user": "agent_users",
    "agent_user_erase": "agent_users",
    "agent_subject": "agent_subjects",
    "agent_subject_thing": "agent_subjects",
    "agent_import": "agent_imports",
    "agent_export": "agent_imports",
    "agent_censor": "agent_censors",
    "agent_censor_add": "agent_censors",
    "agent_censor_edit": "agent_censors",
    "agent_censor_bench": "agent_censors",
    "agent_context_run": "agent_context_runs",
    "agent_expectation": "agent_expectations",
    "agent_context_bisect": "agent_context_runs",
    "agent_context_session": "agent_context_runs",
    "agent_context_blast": "agent_context",
    "agent_health_list": "agent_health",
    "agent_context_profile": "agent_context_settings",
    "context_profile": "context_profiles",
    "context_profile_edit": "context_profiles",
    "context_profile_copy": "context_profiles",
    "context_profile_history": "context_profiles",
}
"""The page of an area that a page belongs to, where it is none itself."""

PLACES: Mapping[str, tuple[Area, AreaPage]] = {
    name: (area, page)
    for area in AREAS
    for page in (*filter(None, [area.page]), *area.pages)
    for name in (page.name, *(name for _, name, _ in page.views))
}
"""The area and the page by URL name, also for the views of a page."""

DOORS: Mapping[str, tuple[AreaPage, ...]] = {
    page.name: (page, *(replace(page, label=view[0], name=view[1], right=view[2]) for view in page.views[1:]))
    for area in AREAS
    for page in area.pages
}
"""By URL name, a page and the views that lead to what else is there for those who may not see it."""


def place_of(url_name: str) -> tuple[Area, AreaPage] | None:
    """The area of a page and the page of that area to which it belongs; None for a page outside all areas."""
    return PLACES.get(url_name) or PLACES.get(PARENT_PAGES.get(url_name, ""))
