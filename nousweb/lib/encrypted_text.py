"""Text that the database holds for a program to read again, encrypted with a key made of the installation's secret."""

import base64
import hashlib
from collections.abc import Iterable

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

MARK, SHORTEST = "gAAAAA", 100
"""How each encrypted text begins: a version byte, and a moment that begins with zeros until the year 2106."""


def text_encrypt(text: str, *, secret: str, purpose: str) -> str:
    """`text` as only `text_decrypt` with the same secret and purpose reads it."""
    return _cipher(secret, purpose).encrypt(text.encode()).decode()


def text_decrypt(encrypted: str, *, secrets: Iterable[str], purpose: str) -> str:
    """What was encrypted by one of `secrets`. Raises ValueError where secret or purpose is another, or the text was
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
