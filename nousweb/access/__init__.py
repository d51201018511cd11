"""Access: tokens, sessions, roles and log-ins."""
