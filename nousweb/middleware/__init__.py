"""What surrounds every request; `MIDDLEWARE` in nousweb/settings.py has the order."""
