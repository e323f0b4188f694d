"""`clew sessions`: one module a word. Needs no model and no key."""
