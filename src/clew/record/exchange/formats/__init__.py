"""Formats of other programs, one module each; registry.py lists them."""
