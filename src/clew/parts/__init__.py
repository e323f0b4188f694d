"""What extends a session, each beside its machine: MCP servers, skills, plugins, language servers, schedules, goals."""
