"""The types of messages, blocks, events and entries, and the functions that create them.

External values are decoded JSON objects. The views here name their fields and never change them.
This package imports nothing else from clew and nothing slow: defining all its types takes less time
than importing `re`. `kinds.py` lists the kinds, and `docs/internals/messages.md` describes their
sources and readers.
"""
