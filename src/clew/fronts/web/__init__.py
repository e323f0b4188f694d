"""`clew web`: the sessions of this machine in a local browser."""
