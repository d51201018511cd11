"""The roles of people, as Django groups with permissions, declared as data."""

from typing import Any

from django.apps import apps
from django.contrib.auth.management import create_permissions

from memory.types import MEMORY_TYPES

ROLE_PERMISSIONS: dict[str, tuple[str, ...]] = {
    "Viewer": (
        "identity.view_agent",
        "identity.view_identityversion",
        "identity.view_changeproposal",
        "identity.view_auditevent",
        *(memory_type.permission("view") for memory_type in MEMORY_TYPES.values()),
        "memory.view_factchange",
        "memory.view_censor",
        "memory.view_workingmemory",
        "memory.view_searchitem",
        "memory.view_memoryreview",
        "memory.view_job",
        "context.view_contextrun",
        "context.view_contextprofile",
        "context.assemble_context",
        "context.view_expectation",
    ),
    "Reviewer": (
        "identity.propose_changeproposal",
        "identity.review_changeproposal",
        *(
            memory_type.permission(action)
            for memory_type in MEMORY_TYPES.values()
            for action in memory_type.reviewers_may
        ),
        "memory.add_rule_fact",
        "memory.add_censor",
        "memory.change_censor",
        "memory.trigger_censor",
        "memory.change_searchitem",
        "memory.review_memory",
        "memory.change_job",
        "context.report_context",
        "context.talk_to_agent",
        "context.add_contextprofile",
        "context.change_contextprofile",
        "context.view_contextpin",
        "context.add_contextpin",
        "context.delete_contextpin",
        "context.add_expectation",
        "context.change_expectation",
        "context.run_expectation",
    ),
    "Administrator": (
        "identity.add_agent",
        "identity.change_agent",
        "identity.reinitiate_agent",
        "identity.view_apitoken",
        "identity.add_apitoken",
        "identity.revoke_apitoken",
        "identity.manage_webhook",
        "memory.view_subconscious",
        "memory.erase_memory",
        "memory.manage_user",
        "memory.import_memory",
    ),
}
"""The permissions of each role beyond those of the role before it. None includes accounts: those are for superusers."""


def roles_sync() -> None:
    """Make the groups and give each exactly its permissions; run after every migration."""
    from django.contrib.auth.models import Group, Permission

    for label in ("identity", "memory", "context"):
        create_permissions(apps.get_app_config(label), verbosity=0)
    known = {
        f"{permission.content_type.app_label}.{permission.codename}": permission
        for permission in Permission.objects.select_related("content_type")
    }
    granted: list[Permission] = []
    for role, names in ROLE_PERMISSIONS.items():
        granted.extend(known[name] for name in names)
        Group.objects.get_or_create(name=role)[0].permissions.set(granted)


OWNER = "Owner"
"""The role that manages people: a superuser."""


def role_of(user: Any) -> str:
    """The highest role of a person of `people_with_access`, in a word, for the console."""
    if user.is_superuser:
        return OWNER
    return next((role for role in reversed(ROLE_PERMISSIONS) if role in user.group_names), "No role")
