"""`clew import-config`: imports other agents' configurations."""
