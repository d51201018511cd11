"""The console's home, and its pages about what agents are told."""
