"""Session storage: transcripts, the session library, exports, stores and file history."""
