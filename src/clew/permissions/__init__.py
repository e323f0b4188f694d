"""Decide whether a tool call may run, and why, by pure functions of the rules and the call."""
