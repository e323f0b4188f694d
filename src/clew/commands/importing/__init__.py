"""`clew import-config`: import other agents' configurations."""
