"""Categories of facts: always in the prompt or not, their permissions, and the kind of subject that they imply."""

PROFILE_CATEGORIES = ("person", "preference", "rule")
"""Facts of these are always on (tier 1) and are left out of searched facts. Source: seed 008, part B."""

KNOWN_CATEGORIES = (*PROFILE_CATEGORIES, "technical", "concept", "tool", "project", "event")
"""Offered in the console; agents may use others of the same form."""

DEFAULT_CATEGORY = "concept"

CATEGORY_PERMISSIONS = {"rule": "memory.add_rule_fact"}
"""Categories that need a right of their own: a rule steers every prompt, so agents do not write it by default."""

BINDING_CATEGORIES = tuple(CATEGORY_PERMISSIONS)
"""Among facts that are always on, these come first: of people's, and of agents' own."""

SUBJECT_KIND_OF_CATEGORY = {"person": "person", "project": "project", "tool": "system"}
"""The kind of a new subject, by the category of the fact that names it; others are of the kind "other"."""
