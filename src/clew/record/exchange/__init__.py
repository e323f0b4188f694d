"""Export and import of sessions: pages, other programs' files, and reports of what is lost."""
