"""Convert conversations from other frameworks to clew's format and back.

Each module has two functions: `read` converts the framework's messages to the Messages API, for
`clew.Session.create` and `append`; `write` converts a session's entries, or messages of the
Messages API, to the framework's format. Only system prompts, which belong to the options, and
hidden reasoning are dropped silently. Any other content without a counterpart raises `ValueError`.
"""
