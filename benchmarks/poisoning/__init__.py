"""How many hostile texts would reach a prompt, and how many harmless ones are quarantined, through the real API."""
