"""Valid time: when a memory is true in the world, from `valid_from` until before `valid_until`; None is open.

Every read names a moment. Without one it is now, so a fact ends without a write.
"""

from datetime import datetime

from django.db import models
from django.db.models import Q


class Validity(models.TextChoices):
    CURRENT = "current", "Current"
    EXPIRED = "expired", "Expired"
    NOT_YET_VALID = "not_yet_valid", "Not yet valid"


def valid_at_q(moment: datetime) -> Q:
    """The condition that a row is valid at `moment`."""
    begun = Q(valid_from__isnull=True) | Q(valid_from__lte=moment)
    return begun & (Q(valid_until__isnull=True) | Q(valid_until__gt=moment))


def expired_q(moment: datetime) -> Q:
    """The condition that the valid time of a row has ended at `moment`."""
    return Q(valid_until__lte=moment)


def not_yet_valid_q(moment: datetime) -> Q:
    """The condition that the valid time of a row begins after `moment`."""
    return Q(valid_from__gt=moment)


def valid_at_sql(moment: str, alias: str = "") -> str:
    """`valid_at_q` in SQL, for the columns of `alias`; `moment` is an expression."""
    column = f"{alias}." if alias else ""
    return (
        f"({column}valid_until IS NULL OR {column}valid_until > {moment})"
        f" AND ({column}valid_from IS NULL OR {column}valid_from <= {moment})"
    )


def not_valid_at_sql(moment: str) -> str:
    """The opposite of `valid_at_sql`, so that indexes of the few rows with a valid time are used."""
    return f"(valid_until <= {moment} OR valid_from > {moment})"


def validity_at(valid_from: datetime | None, valid_until: datetime | None, moment: datetime) -> Validity:
    """`valid_at_q` in Python, with what is not valid told apart."""
    if valid_until is not None and valid_until <= moment:
        return Validity.EXPIRED
    if valid_from is not None and valid_from > moment:
        return Validity.NOT_YET_VALID
    return Validity.CURRENT
