"""The search index: its rows, their vectors and words, and rebuilding it."""
