"""Plugins: folders that add commands, skills, agents, hooks, servers and output styles to clew."""
