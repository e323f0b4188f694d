"""Skills and command files: reusable instructions for the model."""
