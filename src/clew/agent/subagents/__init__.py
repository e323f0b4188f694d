"""Kinds of agents a session can hand work to: what each is told, and what it may use.

`specs` reads a definition, whoever wrote it; `builtin` holds clew's own; `catalog` is what a session
has, by name. What a definition says of permissions narrows; only a person's own may widen.
"""
