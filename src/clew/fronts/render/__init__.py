"""What a session looks like, as lines of text with styles: for whoever has a terminal to put them on.

Nothing in here reads, writes or asks the terminal: what it can do comes in as `Abilities`, its
colours as a `Theme`, its size with each call. See docs/extending/rendering.md.
"""
