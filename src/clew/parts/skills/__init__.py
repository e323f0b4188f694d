"""What people write down once for the model: command files and skills, one kind of thing."""
