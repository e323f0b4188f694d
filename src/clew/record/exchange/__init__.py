"""Export and import of sessions: pages, files of other programs, and reports of what is lost."""
