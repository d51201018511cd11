"""The pages about prompts: what agents get to read, and why."""
