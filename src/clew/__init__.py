"""clew: a coding agent for the terminal, and the message and session engine under it."""
