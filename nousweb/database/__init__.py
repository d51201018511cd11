"""Django's PostgreSQL backend, with limits on statements by the kind of work."""
