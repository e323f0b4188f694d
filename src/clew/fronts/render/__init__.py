"""Rendering of a session as styled lines of text.

Nothing in this package reads from or writes to the terminal. The terminal's features come in as
`Abilities`, its colours as a `Theme`, its size with each call. See docs/extending/rendering.md.
"""
