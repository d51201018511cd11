"""Reviews: decisions about memories that are pending for a person. Opened, resolved, undone, expired."""
