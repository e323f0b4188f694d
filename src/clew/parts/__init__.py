"""Extensions of a session:

MCP servers, skills, plugins, language servers, schedules, goals and more.
"""
