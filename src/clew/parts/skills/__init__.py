"""Skills and command files: instructions for the model that the user or the model can call."""
