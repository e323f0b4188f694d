"""MCP servers, whose tools, prompts and resources become available in the session."""
