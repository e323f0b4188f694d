"""The interactive terminal front end."""
