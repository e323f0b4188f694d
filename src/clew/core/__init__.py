"""Messages, streams, requests and cost as values and pure functions (no clock, disk or network)."""
