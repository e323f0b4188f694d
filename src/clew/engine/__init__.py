"""The loop: a prompt in, a turn out. Everything it touches of the world is handed to it."""
