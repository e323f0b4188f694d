"""The user's editor: its selection and diagnostics, and permission prompts that it shows as diffs."""
