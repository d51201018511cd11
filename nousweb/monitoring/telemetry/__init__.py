"""Traces and metrics by OpenTelemetry, where its variables ask for them. Nothing else imports its packages."""
