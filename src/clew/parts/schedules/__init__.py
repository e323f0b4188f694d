"""Prompts that are submitted automatically while a session runs: at set times or repeatedly."""
