"""Render a session as styled lines of text.

Nothing in this package reads from or writes to the terminal. The caller passes in the terminal's
features as `Abilities`, its colors as a `Theme`, and its size with each call. See
docs/extending/rendering.md.
"""
