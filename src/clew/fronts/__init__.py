"""The front ends: the terminal, line mode, print mode and hosts, editors, Python programs."""
