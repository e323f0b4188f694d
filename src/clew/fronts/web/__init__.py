"""`clew web`: use the sessions of this machine in a local browser."""
