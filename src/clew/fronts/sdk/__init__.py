"""Use clew as a library: sessions, turns and permissions in the calling process."""
