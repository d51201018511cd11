"""How second factors work, declared as data. The figures of a code are those that every authenticator app expects."""

from datetime import timedelta

CODE_DIGITS = 6
STEP_SECONDS = 30
"""How long one code holds (RFC 6238)."""
STEPS_AROUND = 1
"""Codes of so many time steps before and after the present one are taken, since clocks differ."""

RECOVERY_CODES = 10
RECOVERY_CODE_BYTES = 10
"""Of randomness in each: enough that its hash cannot be guessed from a copy of the database."""

LOGIN_MINUTES = 10
"""How long after the password the code may come."""

FRESH_FOR = timedelta(minutes=15)
"""How long a code counts as fresh for what cannot be undone."""

FRESH_PAGES = frozenset(
    {
        "people",
        "person",
        "person_agents",
        "person_deactivate",
        "person_reactivate",
        "person_second_factor_reset",
        "second_factor_requirements",
        "second_factor_remove",
        "recovery_codes_renew",
        "agent_erase",
        "agent_project_erase",
        "agent_subject_erase",
    }
)
"""Pages whose forms ask whoever has a second factor for a fresh code: accounts, and what is erased by the lot."""
