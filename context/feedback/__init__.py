"""What came of a context: which memories the answer referred to, how often, and how alike tasks ended."""
