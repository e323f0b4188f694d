"""The page for browsers: its files, and the routes that only it uses."""
