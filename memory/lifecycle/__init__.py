"""How memory looks after itself: one handler per file, over a pure core."""
