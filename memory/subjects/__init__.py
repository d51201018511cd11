"""Names of subjects: the key of a spelling, certain equality and possible equality."""
