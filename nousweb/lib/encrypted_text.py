"""Encrypt text for the database, with a key that is derived from the installation's secret."""

import base64
import hashlib
from collections.abc import Iterable

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

MARK, SHORTEST = "gAAAAA", 100
"""The beginning of each encrypted text: a version byte, and a time that begins with zeros until the year 2106."""


def text_encrypt(text: str, *, secret: str, purpose: str) -> str:
    """Encrypt `text`; only `text_decrypt` with the same secret and purpose decrypts it."""
    return _cipher(secret, purpose).encrypt(text.encode()).decode()


def text_decrypt(encrypted: str, *, secrets: Iterable[str], purpose: str) -> str:
    """Decrypt a text of one of `secrets`. Raises ValueError if the secret or the purpose differs, or the text was
    changed."""
    try:
        ciphers = MultiFernet([_cipher(secret, purpose) for secret in secrets])
        return ciphers.decrypt(encrypted.encode()).decode()
    except InvalidToken as error:
        raise ValueError("This was encrypted with another secret.") from error


def is_encrypted(text: str) -> bool:
    """Whether a text has the form of an encrypted one."""
    return text.startswith(MARK) and len(text) >= SHORTEST


def _cipher(secret: str, purpose: str) -> Fernet:
    # The secret is random and long, so a plain keyed hash makes as good a key as a slow one.
    key = hashlib.blake2b(purpose.encode(), key=hashlib.sha512(secret.encode()).digest(), digest_size=32).digest()
    return Fernet(base64.urlsafe_b64encode(key))
