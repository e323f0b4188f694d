"""JSON-RPC 2.0: messages, framing, and a connection between two peers.

Only the connection and the child process do I/O.
"""
