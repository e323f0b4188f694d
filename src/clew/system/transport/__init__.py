"""HTTP/1.1 over asyncio: one exchange at a time through three methods, with proxies, TLS and a
small pool.
"""
