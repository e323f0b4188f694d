"""Sessions out of clew and into it: pages, files of other programs, and what is lost on the way."""
