"""Secrets that the database keeps for the product to use again: encrypted by the installation's secret
(NOUS_SECRET_KEY), and written again after that has changed.

While a former secret stands in NOUS_SECRET_KEY_FALLBACKS, what it encrypted is still read. Each row is written again in
a transaction of its own, with its record, so that a run that is killed leaves nothing half done, and the next one does
what is left.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.core.signing import BadSignature, TimestampSigner
from django.db import models, transaction

from identity.models import Agent, SecondFactor, Webhook
from identity.principal import Principal
from identity.services.audit import audit_record
from nousweb.lib import clock
from nousweb.lib.encrypted_text import is_encrypted, text_decrypt, text_encrypt

Key = Literal["present", "former", "none", "lost"]
"""By which secret a text is read: the one of now, a former one, none at all (it is not encrypted), or one that is not
known here."""
BATCH = 500


@dataclass(frozen=True)
class KeptColumn:
    """A column of secrets, each encrypted for its purpose. `target` says what the record about a row is about."""

    model: type[models.Model]
    column: str
    purpose: str
    target: Callable[[Any], tuple[models.Model, Agent | None]]


COLUMNS = (
    KeptColumn(SecondFactor, "secret", "second factor", lambda row: (row.person, None)),
    KeptColumn(Webhook, "secret", "webhook", lambda row: (row, row.agent)),
    KeptColumn(Webhook, "former_secret", "webhook", lambda row: (row, row.agent)),
)
"""All that the installation's secret encrypts."""


def secret_encrypt(text: str, purpose: str) -> str:
    """`text` as the database keeps it, encrypted by the secret of now."""
    return text_encrypt(text, secret=str(settings.SECRET_KEY), purpose=purpose)


def secret_decrypt(kept: str, purpose: str) -> str:
    """A text that was encrypted by the secret of now or a former one. Raises ValueError where neither reads it."""
    return text_decrypt(kept, secrets=_secrets(), purpose=purpose)


def key_of(kept: str, purpose: str) -> Key:
    """By which secret a kept text is read."""
    if not is_encrypted(kept):
        return "none"
    for number, secret in enumerate(_secrets()):
        try:
            text_decrypt(kept, secrets=[secret], purpose=purpose)
        except ValueError:
            continue
        return "former" if number else "present"
    return "lost"


def kept_secrets_count() -> Counter[Key]:
    """How many kept texts are read by which secret."""
    return Counter(key_of(kept, column.purpose) for column in COLUMNS for _, kept in _rows(column))


def sessions_count() -> Counter[Key]:
    """How many sessions that have not ended are signed by which secret; each is signed again when it is written."""
    return Counter(
        _signed_by(data)
        for data in Session.objects.filter(expire_date__gt=clock.now()).values_list("session_data", flat=True)
    )


def kept_secrets_rewrite(*, by: Principal) -> int:
    """Encrypt by the secret of now what a former one encrypted, and what is not encrypted yet; returns how many texts.

    What no known secret reads is left as it is.
    """
    rewritten = 0
    for column in COLUMNS:
        for key, kept in _rows(column):
            if key_of(kept, column.purpose) in ("former", "none"):
                rewritten += _rewrite(column, key, by)
    return rewritten


@transaction.atomic
def _rewrite(column: KeptColumn, key: Any, by: Principal) -> bool:
    """Write one row again, unless it has changed meanwhile; whether it was written."""
    row = column.model._default_manager.select_for_update().filter(pk=key).first()
    kept = getattr(row, column.column, "")
    if not kept or key_of(kept, column.purpose) not in ("former", "none"):
        return False
    plain = secret_decrypt(kept, column.purpose) if is_encrypted(kept) else kept
    setattr(row, column.column, secret_encrypt(plain, column.purpose))
    assert row is not None  # noqa: S101
    row.save(update_fields=[column.column])
    target, agent = column.target(row)
    audit_record(by=by, action="secret.rewrite", target=target, agent=agent, after={"column": column.column})
    return True


def _rows(column: KeptColumn) -> Iterator[tuple[Any, str]]:
    """Keys and texts of a column, in the order of the keys, whatever is written meanwhile."""
    found = column.model._default_manager.exclude(**{column.column: ""}).order_by("pk")
    last = None
    while True:
        following = found.filter(pk__gt=last) if last is not None else found
        rows = list(following.values_list("pk", column.column)[:BATCH])
        yield from rows
        if len(rows) < BATCH:
            return
        last = rows[-1][0]


def _secrets() -> list[str]:
    return [str(settings.SECRET_KEY), *settings.SECRET_KEY_FALLBACKS]


def _signed_by(session: str) -> Key:
    for number, secret in enumerate(_secrets()):
        try:
            TimestampSigner(key=secret, fallback_keys=[], salt=SessionStore().key_salt).unsign(session)
        except BadSignature:
            continue
        return "former" if number else "present"
    return "lost"
