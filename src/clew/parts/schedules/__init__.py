"""Prompts that come by themselves while a session runs: at times, after a while, again and again."""
