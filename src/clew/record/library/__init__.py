"""The sessions of a config home as a collection: listing, search, statistics and storage.

All derived data is in one database that can be deleted; the transcripts remain the only source.
"""
