"""The memory lifecycle: background jobs that maintain memory, one handler per file, and their runner."""
