"""What a person can type that is no prompt: slash commands, shell lines, notes; and `@file` in prompts."""
