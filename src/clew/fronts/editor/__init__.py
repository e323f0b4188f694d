"""`clew acp`: clew inside an editor, over the Agent Client Protocol."""
