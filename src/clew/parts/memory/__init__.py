"""The memory of a session: instructions and memories that it receives, and those it saves."""
