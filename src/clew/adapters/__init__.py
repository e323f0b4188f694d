"""Conversations of other frameworks, to clew and back.

Each module has two functions: `read` returns the framework's messages as those of the Messages API,
which `clew.Session.create` and `append` take; `write` returns a session's entries, or messages of
the Messages API, in the framework's form. Nothing is dropped silently: what has no counterpart
raises `ValueError`, apart from system prompts, which belong to the options, and hidden reasoning.
"""
