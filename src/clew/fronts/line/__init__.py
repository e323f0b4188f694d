"""A session line by line: for screen readers and dumb terminals; nothing is drawn."""
