"""Markdown as blocks, inline tokens and code in colors, for the terminal and for exports. Pure."""
