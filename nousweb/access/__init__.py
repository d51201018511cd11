"""Who gets in: tokens, sessions, roles and log-ins."""
