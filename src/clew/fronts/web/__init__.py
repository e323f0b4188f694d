"""`clew web`: the sessions of this machine in a browser on it."""
