"""What a spelling of a subject tells: its key, what certainly means the same, and what may."""
