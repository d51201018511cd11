"""How many rows a seal covers, how often tables are sealed and verified, and when that is overdue."""

from datetime import timedelta

SEAL_ROWS = 1_000
"""At most so many rows stand in one seal; a chain that has them is sealed at once."""
SEAL_EVERY = timedelta(minutes=5)
"""A chain with fewer rows gets a seal so often at most, so that a busy agent does not fill a table with seals."""
SELECT_ROWS = 20_000
TRANSACTION_ROWS = 5_000
"""Erasures wait for a transaction of the sealer, so it seals no more rows than this."""
ROUND_SECONDS = 40.0
LATE = timedelta(hours=6)
"""The maximum age of a transaction whose rows are sealed; rows that claim to be older were inserted later."""
SETTLED = timedelta(seconds=5)
"""Between the number that a row is given and its transaction's own there lie microseconds; so long is waited."""
VERIFY_EVERY = timedelta(days=1)
VERIFY_SECONDS = 45.0
"""A part of a verification takes so long, and the next one begins with the next minute."""
OVERDUE = timedelta(hours=1)
"""A sealer that was last done so long ago is reported."""
