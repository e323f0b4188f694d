"""Line mode, for screen readers and simple terminals: printed text is never redrawn."""
