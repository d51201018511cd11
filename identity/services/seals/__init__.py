"""The tamper-evident log: seals over append-only tables, and the checks of rows against them.

Writers do nothing for it. Once a minute the worker takes the committed rows that have no seal yet, in chains (a kind of
rows of one persona of an agent). Their positions are assigned after the commit, so no row can be added later to a
sealed range. A row is a leaf of a Merkle tree (RFC 9162); a seal contains its root and the hash of the seal before.

An erasure deletes sealed rows. The database then keeps the hash of each row, sets its salt to zero, and records a
tombstone with the erasure's receipt (`HOLES` in memory/migrations/0001_initial.py).
"""
