"""Language servers, which answer questions about code more precisely than a text search."""
