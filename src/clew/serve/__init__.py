"""The session server of `clew serve`: a durable log of sessions, with two APIs."""
