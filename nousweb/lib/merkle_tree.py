"""Hashes of lists of records: the Merkle tree of RFC 9162 (section 2.1), and an encoding that has one reading."""

import hashlib
from collections.abc import Iterable, Sequence

LEAF, NODE = b"\x00", b"\x01"
"""Prefixes of hashed data, so that no node of a tree can be taken for a leaf."""


def leaf_hash(data: bytes) -> bytes:
    """SHA-256 of a leaf, 32 bytes."""
    return hashlib.sha256(LEAF + data).digest()


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """The root over hashes of leaves, 32 bytes. A list of n is cut at the largest power of two below n.

    Level by level this is the same as pairing neighbours and letting an odd last one rise as it is.
    """
    if not leaves:
        return hashlib.sha256(b"").digest()
    level = list(leaves)
    while len(level) > 1:
        paired = [hashlib.sha256(NODE + level[at] + level[at + 1]).digest() for at in range(0, len(level) - 1, 2)]
        level = paired + level[len(paired) * 2 :]
    return level[0]


def encode(values: Iterable[str | None]) -> bytes:
    """Texts one after another, each with its length in bytes before it, so that no two lists give the same bytes."""
    parts = []
    for value in values:
        if value is None:
            parts.append(b"-")
        else:
            raw = value.encode()
            parts.append(b"%d:%b" % (len(raw), raw))
    return b"".join(parts)
