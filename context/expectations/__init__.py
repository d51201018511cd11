"""Tests of an agent's memory that people write, checked by the engine that makes its prompts."""
