"""The Model Context Protocol: the operations of the API as tools, resources and a prompt, for any MCP client."""
