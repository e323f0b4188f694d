"""Sessions over a network: the worker that a server passes viewers' input to, and a viewer."""
