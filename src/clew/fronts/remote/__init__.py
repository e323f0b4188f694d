"""Sessions over a network: a worker, which takes viewers' input from a server, and a viewer."""
