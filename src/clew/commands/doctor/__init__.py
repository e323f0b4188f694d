"""`clew doctor`: checks each part of an installation and suggests fixes; changes nothing."""
