"""Parse Markdown into blocks and inline tokens and highlight code, for display or export.

This package does no I/O.
"""
