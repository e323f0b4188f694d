"""clew without a person in front of it: one prompt in, one result and one exit code out."""
