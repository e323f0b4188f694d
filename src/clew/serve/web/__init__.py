"""The page for browsers: its files, and the requests that only it makes."""
