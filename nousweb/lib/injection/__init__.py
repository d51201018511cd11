"""Texts that read like an instruction to the agent or hold a secret: rules on words only, for all apps."""
