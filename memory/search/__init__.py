"""The search index and everything that reads or fills it."""
