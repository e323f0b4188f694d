"""What can be told of sessions without a model: what they cost, and what fills their next request."""
