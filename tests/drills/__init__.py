"""Drills of a larger installation: a pooler, a proxy, a replica. Minutes long, so they run with ATTACK_SCALE=full only
(`make drills`), and where their programs are installed."""
