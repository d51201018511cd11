"""Text that the database holds for a program to read again, encrypted with a key made of the installation's secret."""

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken


def text_encrypt(text: str, *, secret: str, purpose: str) -> str:
    """`text` as only `text_decrypt` with the same secret and purpose reads it."""
    return _cipher(secret, purpose).encrypt(text.encode()).decode()


def text_decrypt(encrypted: str, *, secret: str, purpose: str) -> str:
    """What was encrypted. Raises ValueError where the secret or the purpose is another, or the text was changed."""
    try:
        return _cipher(secret, purpose).decrypt(encrypted.encode()).decode()
    except InvalidToken as error:
        raise ValueError("This was encrypted with another secret.") from error


def _cipher(secret: str, purpose: str) -> Fernet:
    # The secret is random and long, so a plain keyed hash makes as good a key as a slow one.
    key = hashlib.blake2b(purpose.encode(), key=hashlib.sha512(secret.encode()).digest(), digest_size=32).digest()
    return Fernet(base64.urlsafe_b64encode(key))
