"""Django's backend of PostgreSQL, with limits to what a statement may take, by what it is for."""
