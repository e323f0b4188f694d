"""The front ends: terminal, line mode, print mode, host programs, editors, and the Python SDK."""
