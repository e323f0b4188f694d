"""Web Push: tell a browser that a session waits for an answer while the page is closed."""
