"""What is known of each model: limits, abilities, prices with their dates. What is not known is None."""
