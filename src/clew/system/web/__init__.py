"""Pages of the web: fetched within limits and from public addresses only, and turned into Markdown."""
