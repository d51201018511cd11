"""How memory looks after itself: one handler per file, and what runs them. It stands above the services."""
