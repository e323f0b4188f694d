"""Providers of model responses: the Messages API, chat completions, and the retry policy."""
