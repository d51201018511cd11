"""Subjects: found and made when facts are learned; named, merged, split and undone by people."""
