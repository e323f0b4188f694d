"""Language servers, which answer questions about code more exactly than a text search."""
