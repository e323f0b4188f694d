"""The vocabulary: every message, block, event and entry clew knows, and the few ways to make one.

Values from outside are decoded JSON objects; the views here name their fields and never change them.
Imports nothing of clew's and nothing heavy: defining all of it costs less than loading `re`.
The kinds are listed in `kinds.py`; `docs/internals/messages.md` says where each comes from and goes.
"""
