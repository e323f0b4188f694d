"""Language servers: what knows a project's code better than a search for words does."""
