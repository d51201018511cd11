"""Addresses of the site that visitors reach without signing in."""

PUBLIC_PATHS = (
    "/login/",
    "/static/",
    "/healthz",
    "/readyz",
    "/metrics",
    "/api/",
    "/mcp",
    "/admin/",
    "/favicon.ico",
    "/invitation/",
    "/.well-known/",
    "/oauth/token",
    "/oauth/revoke",
    "/oauth/register",
)
"""Beginnings of paths that the console's log-in does not guard: each is public, or checks its callers itself."""
