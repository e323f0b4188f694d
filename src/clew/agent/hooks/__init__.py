"""Hooks: the user's own programs, called at events of a session.

`events` is the table of events, `handlers` parses the settings, `output` parses a hook's reply, and
`outcome` decides which hooks an event calls and combines their replies. `run` calls the hooks;
everything else here does no I/O. A hook's output is data. A hook may deny, ask, add context, and
allow calls that no rule restricts; it never overrides a rule. The contract is described in
docs/extending/hooks.md.
"""
