"""Subagents of a session: conversations of their own, made of the same parts."""
