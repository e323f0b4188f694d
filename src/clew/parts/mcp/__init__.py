"""MCP servers: their tools, prompts and resources as the session's own, whatever the servers do."""
