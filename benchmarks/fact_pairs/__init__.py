"""Labelled pairs of facts, and what becomes of them without a judge."""
