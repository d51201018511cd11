"""Parameters of second factors, declared as data. Those of a code are the ones that every authenticator app expects."""

from datetime import timedelta

CODE_DIGITS = 6
STEP_SECONDS = 30
"""Lifetime of one code (RFC 6238)."""
STEPS_AROUND = 1
"""Codes of so many time steps before and after the present one are taken, since clocks differ."""

RECOVERY_CODES = 10
RECOVERY_CODE_BYTES = 10
"""Random bytes of each recovery code: enough that its hash cannot be guessed from a copy of the database."""

LOGIN_MINUTES = 10
"""Maximum minutes between the password and the code."""

FRESH_FOR = timedelta(minutes=15)
"""The time for which a code counts as fresh for irreversible actions."""

FRESH_PAGES = frozenset(
    {
        "account",
        "account_mail",
        "account_name",
        "account_provider",
        "people",
        "person",
        "person_agents",
        "person_staff_give",
        "person_staff_take",
        "person_sign_out",
        "invitation_revoke",
        "person_deactivate",
        "person_reactivate",
        "person_second_factor_reset",
        "second_factor_requirements",
        "second_factor_remove",
        "recovery_codes_renew",
        "agent_erase",
        "agent_project_erase",
        "agent_subject_erase",
        "agent_user_erase",
    }
)
"""Pages whose forms require a fresh code from people with a second factor: accounts, and bulk erasure."""
