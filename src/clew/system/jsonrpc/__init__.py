"""JSON-RPC 2.0, once: messages, framings and a conversation of two peers, the first three without IO."""
