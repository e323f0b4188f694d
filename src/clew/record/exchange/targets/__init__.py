"""Formats of other programs for export; registry.py lists them."""
