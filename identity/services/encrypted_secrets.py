"""Secrets that are encrypted in the database by the installation's secret (NOUS_SECRET_KEY), and their re-encryption
after that secret has changed.

Texts that a former secret encrypted stay readable while it is listed in NOUS_SECRET_KEY_FALLBACKS. Each row is
rewritten in a transaction of its own, with its audit record, so that a killed run leaves no row half done and the next
run continues.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.core.signing import BadSignature, TimestampSigner
from django.db import models, transaction

from identity.models import Agent, SecondFactor, Webhook
from identity.principal import Principal
from identity.services.audit import audit_record
from nousweb.lib import clock

EncryptionState = Literal["present", "former", "none", "lost"]
"""Which secret decrypts a text: the present one, a former one, none (it is plain text), or an unknown one ("lost")."""
MARK, SHORTEST = "gAAAAA", 100
"""The beginning of each encrypted text: a version byte, and a time that begins with zeros until the year 2106."""


@dataclass(frozen=True)
class EncryptedColumn:
    """A column of secrets, each encrypted for its purpose. `target` gives the target and agent of the audit record."""

    model: type[models.Model]
    column: str
    purpose: str
    target: Callable[[Any], tuple[models.Model, Agent | None]]


COLUMNS = (
    EncryptedColumn(SecondFactor, "secret", "second factor", lambda row: (row.person, None)),
    EncryptedColumn(Webhook, "secret", "webhook", lambda row: (row, row.agent)),
    EncryptedColumn(Webhook, "former_secret", "webhook", lambda row: (row, row.agent)),
)
"""All columns that the installation's secret encrypts."""


def secret_encrypt(text: str, purpose: str) -> str:
    """Encrypt `text` for the database by the present secret."""
    return _cipher(str(settings.SECRET_KEY), purpose).encrypt(text.encode()).decode()


def secret_decrypt(stored: str, purpose: str) -> str:
    """Decrypt a text of the present or a former secret. Raises ValueError if none of them decrypts it."""
    try:
        return MultiFernet([_cipher(secret, purpose) for secret in _secrets()]).decrypt(stored.encode()).decode()
    except InvalidToken as error:
        raise ValueError("This was encrypted with another secret.") from error


def is_encrypted(text: str) -> bool:
    """Whether a text has the form of an encrypted one."""
    return text.startswith(MARK) and len(text) >= SHORTEST


def _cipher(secret: str, purpose: str) -> Fernet:
    # The secret is random and long, so a plain keyed hash makes as good a key as a slow one.
    key = hashlib.blake2b(purpose.encode(), key=hashlib.sha512(secret.encode()).digest(), digest_size=32).digest()
    return Fernet(base64.urlsafe_b64encode(key))


def encryption_state(stored: str, purpose: str) -> EncryptionState:
    """Which secret decrypts a stored text."""
    if not is_encrypted(stored):
        return "none"
    return _first_secret(lambda secret: _cipher(secret, purpose).decrypt(stored.encode()), InvalidToken)


def encrypted_secrets_count() -> Counter[EncryptionState]:
    """Count the stored texts by the secret that decrypts them."""
    return Counter(encryption_state(stored, column.purpose) for column in COLUMNS for _, stored in _rows(column))


def sessions_count() -> Counter[EncryptionState]:
    """Count the open sessions by the secret that signed them. A session is signed again when it is saved."""
    return Counter(
        _signature_state(data)
        for data in Session.objects.filter(expire_date__gt=clock.now()).values_list("session_data", flat=True)
    )


def encrypted_secrets_rewrite(*, by: Principal) -> int:
    """Encrypt by the present secret all texts of former ones, and texts that are not encrypted; returns how many.

    Texts that no known secret decrypts are left as they are.
    """
    return sum(
        _rewrite(column, key, by)
        for column in COLUMNS
        for key, stored in _rows(column)
        if encryption_state(stored, column.purpose) in ("former", "none")
    )


@transaction.atomic
def _rewrite(column: EncryptedColumn, key: Any, by: Principal) -> bool:
    """Rewrite one row unless it has changed meanwhile. Returns whether it was rewritten."""
    row = column.model._default_manager.select_for_update().filter(pk=key).first()
    stored = getattr(row, column.column, "")
    if not stored or encryption_state(stored, column.purpose) not in ("former", "none"):
        return False
    plain = secret_decrypt(stored, column.purpose) if is_encrypted(stored) else stored
    setattr(row, column.column, secret_encrypt(plain, column.purpose))
    assert row is not None  # noqa: S101
    row.save(update_fields=[column.column])
    target, agent = column.target(row)
    audit_record(by=by, action="secret.rewrite", target=target, agent=agent, after={"column": column.column})
    return True


def _rows(column: EncryptedColumn) -> Iterator[tuple[Any, str]]:
    """Keys and texts of a column."""
    held = column.model._default_manager.exclude(**{column.column: ""})
    return held.order_by("pk").values_list("pk", column.column).iterator()


def _secrets() -> list[str]:
    return [str(settings.SECRET_KEY), *settings.SECRET_KEY_FALLBACKS]


def _signature_state(session: str) -> EncryptionState:
    return _first_secret(
        lambda secret: TimestampSigner(key=secret, fallback_keys=[], salt=SessionStore().key_salt).unsign(session),
        BadSignature,
    )


def _first_secret(opens: Callable[[str], object], refusal: type[Exception]) -> EncryptionState:
    """The first secret with which `opens` does not raise `refusal`."""
    for number, secret in enumerate(_secrets()):
        with suppress(refusal):
            opens(secret)
            return "former" if number else "present"
    return "lost"
