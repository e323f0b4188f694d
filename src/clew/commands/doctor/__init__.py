"""Checks each part of an installation and suggests fixes, without changing anything."""
