"""Matching texts against censors: pure, without models or database, so that a test bench shows what a check does."""
