"""Decisions about a request before memory is searched: frame, intent, plan, budget."""
