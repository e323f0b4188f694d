"""Kinds of agents a session can hand work to: what each is told, and what it may use.

`specs` reads a definition, whoever wrote it, and is what a session has, by name; `offer` says which
tools an agent gets. They run in `clew.parts.agents`. What a definition says of permissions narrows; only a person's own may widen.
"""
