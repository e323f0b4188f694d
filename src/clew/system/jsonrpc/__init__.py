"""JSON-RPC 2.0: messages, framing, and a connection between two peers.

Only the last part does IO.
"""
