"""Import memory from other tools; export and import a whole agent."""
