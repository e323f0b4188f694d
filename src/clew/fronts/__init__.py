"""Who shows a session and asks the user: the terminal, line mode, print and hosts, editors, Python programs."""
