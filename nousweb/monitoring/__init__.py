"""Health, heartbeats of the workers, and metrics."""
