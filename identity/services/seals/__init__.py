"""The tamper-evident log: seals over what is append-only, and the checks of rows against them.

Writers do nothing for it. Once a minute the worker takes the rows that are committed and in no seal yet, in chains (a
kind of rows of one persona of an agent). Their places are given after the commit, so no row can come later into what is
sealed already. A row is a leaf of a Merkle tree (RFC 9162); a seal holds its root and the hash of the seal before.

An erasure takes rows out of reach of that. The database then keeps the hash of each row, makes its salt zero, and notes
a hole with the erasure's receipt (memory/migrations/0038_seals.py).
"""
