"""The pages about prompts: their contents, and the reasons."""
