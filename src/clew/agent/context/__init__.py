"""The model's input before the first prompt: standing instructions and context facts.

The system prompt never changes within a session. Everything that can vary by day or folder (memory
files, git, date, environment) is an attachment whose text is frozen when it is recorded.
"""
