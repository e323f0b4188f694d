"""Conversations of other frameworks, to clew and back.

Each module has two functions: `read` converts the framework's messages to the Messages API, for
`clew.Session.create` and `append`; `write` converts a session's entries, or messages of the
Messages API, to the framework's format. Nothing is dropped silently: content without a counterpart
raises `ValueError`, except system prompts, which belong to the options, and hidden reasoning.
"""
