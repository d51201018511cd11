"""Request and response schemas of the API of identity, its change feed and its webhooks."""
