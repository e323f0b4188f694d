"""clew as a library: the same session, turn and permissions as the program, without a process between."""
