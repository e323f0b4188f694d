"""`clew sessions`: its commands, grouped by subject. None of them needs a model or an API key."""
