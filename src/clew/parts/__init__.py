"""Extensions of a session, such as MCP servers, skills, plugins, schedules and goals."""
