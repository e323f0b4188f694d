"""Line mode, for screen readers and simple terminals: nothing is redrawn."""
