"""Facts about each model: limits, capabilities and dated prices. An unknown fact is None."""
