"""Changes of an agent's prompts over time."""
