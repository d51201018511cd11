"""Calls that no client of good will makes, drawn from a seed; every answer of 5xx is a finding."""
