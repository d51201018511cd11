"""The errors of this package."""


class PostgresProblem(Exception):
    """The database cannot be used; the message is one sentence for the person at the terminal."""


class DatabaseGone(PostgresProblem):
    """The folder of the database is no longer there."""
