"""Parse Markdown into blocks and inline tokens and highlight code, for display or export.

Does no I/O.
"""
