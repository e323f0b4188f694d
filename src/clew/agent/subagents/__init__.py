"""Agent types that a session can delegate work to: their instructions and tools.

`specs` parses a definition and contains the session's agent types by name; `offer` decides which
tools an agent gets. Agents run in `clew.parts.agents`. Any definition can narrow permissions; only
the user's own definitions can widen them.
"""
