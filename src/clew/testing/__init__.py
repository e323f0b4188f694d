"""What tests, demos and benchmarks stand on, of clew and of others: a Messages API on loopback."""
