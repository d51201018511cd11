"""How many hostile texts would reach a prompt, and how many harmless ones are held back, through the real API."""
