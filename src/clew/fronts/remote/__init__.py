"""Sessions over a network: workers run them and viewers use them, through a session server."""
