"""Copies of transcripts elsewhere: how they are sent, and how they come home without loss."""
