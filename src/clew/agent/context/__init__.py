"""What the model knows before the first word: its standing instructions and the facts around it.

The system prompt never changes within a session. Everything that can differ from day to day or folder to
folder (memory files, git, date, environment) is an attachment whose text is frozen when it is recorded.
"""
