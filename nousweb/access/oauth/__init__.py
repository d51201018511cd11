"""OAuth 2.1 for MCP: clients find this server, register, and exchange a person's consent for a token."""
