"""Tools for tests, demos and benchmarks of clew and other projects: a Messages API on loopback."""
