"""Cloud credentials: signatures for AWS, tokens for Google and Azure."""
