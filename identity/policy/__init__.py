"""Rules of identity, declared as data."""
