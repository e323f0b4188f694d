"""Shortening a conversation that outgrows its window: how much, where to cut, what to say instead."""
