"""The permissions of tokens' scopes, and those that only people have, declared as data."""

from collections.abc import Iterable

SCOPE_PERMISSIONS: dict[str, frozenset[str]] = {
    "identity:read": frozenset(
        {"identity.view_agent", "identity.view_identityversion", "identity.view_changeproposal"}
    ),
    "identity:propose": frozenset({"identity.propose_changeproposal"}),
    "memory:read": frozenset(
        {
            "memory.view_censor",
            "memory.view_workingmemory",
            "memory.view_searchitem",
            "memory.view_memoryreview",
            "memory.view_job",
        }
    ),
    "memory:write": frozenset(
        {
            "memory.add_censor",
            "memory.trigger_censor",
            "memory.change_workingmemory",
        }
    ),
    "memory:rules": frozenset({"memory.add_rule_fact"}),
    "context:read": frozenset({"context.assemble_context", "context.report_context"}),
    "users:manage": frozenset({"memory.manage_user"}),
    "expectations:run": frozenset({"context.view_expectation", "context.run_expectation"}),
}
"""The permissions of each scope of an agent's token. No scope has, or may ever have, a permission to approve.

Each type of memory adds the actions of tokens (`tokens_may` in `memory/types/`) by `scope_extend`.
"""


def scope_extend(scope: str, permissions: Iterable[str], *, in_projects: bool = False) -> None:
    """Add permissions to `scope`, while the apps are set up; with `in_projects`, also for tokens limited to projects.

    Raises ValueError for permissions that only people may have.
    """
    added = frozenset(permissions)
    if kept := added & PEOPLE_ONLY_PERMISSIONS:
        raise ValueError(f"Only people may hold {', '.join(sorted(kept))}.")
    SCOPE_PERMISSIONS[scope] |= added
    if in_projects:
        PROJECT_TOKEN_PERMISSIONS.update(added)


DEFAULT_SCOPES = ("identity:read", "identity:propose", "memory:read", "memory:write", "context:read")

VIEW_SUBCONSCIOUS = "memory.view_subconscious"
"""The right of people to see what belongs to an agent's subconscious, in records, lists and counts too."""

ACTIONS_OF_BOTH_PERSONAS = frozenset(
    {"agent.erase", "agent.import", "subject.erase", "project.erase", "user.erase", "index.retry"}
)
"""Actions whose audit records count rows of both personas: everybody may know of them, not everybody of the figures."""

PEOPLE_ONLY_PERMISSIONS = frozenset(
    {
        "identity.review_changeproposal",
        "identity.reinitiate_agent",
        "identity.add_agent",
        "identity.change_agent",
        "identity.view_auditevent",
        "identity.manage_webhook",
        "identity.view_apitoken",
        "identity.add_apitoken",
        "identity.revoke_apitoken",
        "memory.change_fact",
        "memory.change_document",
        "memory.change_censor",
        "memory.review_memory",
        "memory.change_job",
        VIEW_SUBCONSCIOUS,
        "memory.erase_memory",
        "memory.import_memory",
        "context.add_expectation",
        "context.change_expectation",
        "context.talk_to_agent",
    }
)
"""Permissions that only a signed-in person can have, whatever a token's scopes."""

PROJECT_TOKEN_PERMISSIONS = {
    "identity.view_agent", "identity.view_identityversion", "identity.view_changeproposal",
    "memory.add_rule_fact", "memory.view_censor", "memory.trigger_censor", "memory.view_searchitem",
    "memory.view_workingmemory", "memory.change_workingmemory",
    "context.assemble_context", "context.report_context",
}  # fmt: skip
"""All permissions that a token limited to projects can have, whatever its scopes: to read and write rows with keys of
projects, or rows that hold everywhere. Permissions over all projects together are not among them.

Types of memory that carry the key of a project add the actions of tokens on them by `scope_extend`.
"""

ALL_AGENTS_PERMISSIONS = frozenset(
    {"identity.add_agent", "context.add_contextprofile", "context.change_contextprofile"}
)
"""Permissions that concern every agent: a person who is limited to some agents does not have them, whatever their
role."""

GLOBAL_WRITES = frozenset({"identity.propose_changeproposal", "memory.add_censor"})
"""Further permissions of such a token where it may write global memory: they create rows that hold everywhere."""

APPROVING_PERMISSIONS = frozenset({"identity.review_changeproposal", "memory.review_memory"})
"""Permissions that not even the product itself uses: a person decides what is pending."""


def is_reading(permission: str) -> bool:
    """Whether a permission ("app.codename") only lets read; assembling a context is a preview for people."""
    return ".view_" in permission or permission == "context.assemble_context"
