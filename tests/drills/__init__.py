"""Drills of a larger installation: a pooler, a proxy, a replica. Minutes long, so only `make drills` runs them, where
their programs are installed."""
