"""The one error of this package."""


class PostgresProblem(Exception):
    """The database cannot be used; the message is one sentence for the person at the terminal."""
