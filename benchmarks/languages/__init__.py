"""Retrieval in several languages."""
