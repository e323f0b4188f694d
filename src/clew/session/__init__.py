"""Assembly of a session from options and an environment."""
