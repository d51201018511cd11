"""What the API of identity, its change feed and its webhooks takes and gives."""
