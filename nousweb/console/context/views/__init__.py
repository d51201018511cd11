"""The pages about what agents are told."""
