"""Remote copies of transcripts: how they are sent, and how they are fetched without loss."""
