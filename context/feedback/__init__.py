"""Feedback on contexts: references of answers to memories, their frequency, and outcomes of similar tasks."""
