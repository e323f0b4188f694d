"""clew with a person in front of it."""
