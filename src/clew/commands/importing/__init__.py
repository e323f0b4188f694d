"""`clew import-config`: take over what other agents' configurations say."""
