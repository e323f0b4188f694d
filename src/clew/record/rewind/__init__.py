"""File history: the changes that each tool call made to files, and rewinding to any message."""
