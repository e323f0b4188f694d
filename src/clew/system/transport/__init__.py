"""HTTP/1.1 over asyncio, with proxies, TLS and a small connection pool."""
