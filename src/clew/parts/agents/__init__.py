"""What a subagent has of its session: places, messages, hooks, servers, skills."""
