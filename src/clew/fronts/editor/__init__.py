"""`clew acp`: clew in an editor, over the Agent Client Protocol."""
