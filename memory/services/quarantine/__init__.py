"""Quarantine: texts that read like an instruction to the agent or hold a secret, until a person allows them."""
