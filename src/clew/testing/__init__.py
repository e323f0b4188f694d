"""Tools for tests, demos and benchmarks, clew's own and others': a Messages API on loopback."""
