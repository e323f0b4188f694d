"""The formats of other programs that sessions are exported to; registry.py lists them."""
