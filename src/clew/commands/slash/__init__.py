"""Slash commands: the table, and a module for each subject; loaded when one is typed."""
