"""The middleware; `MIDDLEWARE` in nousweb/settings.py has the order."""
