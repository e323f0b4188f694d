"""The assembly: from options and an environment to an open session."""
