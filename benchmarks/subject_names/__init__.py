"""Pairs of spellings, and how many of them are merged, asked about or told apart."""
