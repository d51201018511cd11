"""Which sections of an identity are included first if the budget is short."""

from identity.policy.sections import Section

SECTION_PRIORITY: dict[str, int] = {
    name: place
    for place, name in enumerate(
        (
            Section.BOUNDARIES,
            Section.CHARACTER,
            Section.VALUES,
            Section.PROTOCOLS,
            Section.PREFERENCES,
            Section.ENVIRONMENT,
        )
    )
}
"""The order in which sections of an identity are included if the budget is short: its boundaries first, since they
protect others."""
