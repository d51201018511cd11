"""Reviews: what waits for a person about memories. Opened, resolved, undone, expired."""
