"""`clew doctor`: check each part of an installation and suggest fixes; change nothing."""
