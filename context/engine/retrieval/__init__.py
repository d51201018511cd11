"""Reads from memory for a prompt: candidates, pins, retired memories, repetitions of the conversation."""
