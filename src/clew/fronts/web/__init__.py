"""`clew web`: use the sessions on this machine in a local browser."""
