"""All sessions of a config home, as one collection: listed, searched, filtered, counted, kept.

What is derived lies in one database that can be thrown away; the transcripts stay the only truth.
"""
