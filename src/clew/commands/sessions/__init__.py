"""`clew sessions`: its commands by group. None of them needs a model or an API key."""
