"""Messages, streams, requests and money, as values and pure functions: no clock, no disk, no network."""
