"""The headless front end: one prompt in, one result and one exit code out, or a host protocol."""
