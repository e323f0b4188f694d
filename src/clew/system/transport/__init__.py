"""HTTP/1.1 over asyncio: one exchange at a time behind three methods; proxies, TLS, a small pool."""
