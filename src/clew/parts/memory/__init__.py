"""What a session remembers: instructions and memories it reads, and what it leaves for later ones."""
