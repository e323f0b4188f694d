"""The memory of a session: instructions and memories that it reads, and memories that it saves."""
