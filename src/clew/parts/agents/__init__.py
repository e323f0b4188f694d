"""Subagents of a session: their tools, messages, hooks, MCP servers, skills and worktrees."""
