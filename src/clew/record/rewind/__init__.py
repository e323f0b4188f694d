"""Files through time: what each call did to them, kept by content, and the way back to any message."""
