"""What changed an agent's prompts over time."""
