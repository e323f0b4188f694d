"""What is written of sessions and read again: transcripts, the library of all sessions, exports, stores, files through time."""
