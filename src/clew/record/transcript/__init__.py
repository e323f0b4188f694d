"""The transcript: a session as an append-only file of entries, one JSON object per line."""
