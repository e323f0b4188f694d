"""Assemble a session from options and an environment."""
