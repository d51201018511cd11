"""OAuth 2.1 for MCP: what a client needs to find this server, register, and exchange a person's consent for a token."""
