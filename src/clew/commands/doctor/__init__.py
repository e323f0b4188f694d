"""What is wrong with a setup, and what to do about it: looked at part by part, changing nothing."""
