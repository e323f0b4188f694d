"""Settings, environment variables, API keys and folder trust."""
