"""The position of the database's log at the last write, for reads from a replica."""

from django.db import models


class WriteMark(models.Model):
    """The place in the log of the last write of an agent's tokens, or of people. Kept only where there is a replica."""

    key = models.CharField(max_length=40, primary_key=True)
    position = models.BigIntegerField()

    def __str__(self) -> str:
        return self.key
