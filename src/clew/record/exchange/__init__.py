"""Export and import of sessions: pages, other programs' formats, and reports of losses."""
