"""MCP servers: their tools, prompts and resources as part of the session."""
