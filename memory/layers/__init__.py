"""How the layers of memory derive from each other: pure functions and their policy, without a database."""
