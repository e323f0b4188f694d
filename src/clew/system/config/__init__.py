"""What a person, a project and an administrator decided: settings, environment, keys, trust."""
