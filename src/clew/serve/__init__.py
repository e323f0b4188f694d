"""The session server behind `clew serve`: a durable log of sessions, and two APIs over it."""
