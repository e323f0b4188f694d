"""`clew acp`: use clew in an editor, over the Agent Client Protocol."""
