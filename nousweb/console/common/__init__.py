"""Shared parts of the console: navigation, pages of lists, charts, and links to objects."""
