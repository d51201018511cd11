"""Measurements of retrieval quality and speed; docs/benchmarks.md tells how to run them and what they gave."""
