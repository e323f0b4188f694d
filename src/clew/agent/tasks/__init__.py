"""Background work: commands, monitors and other kinds of tasks.

`registry` contains the running and finished tasks, `lines` reports output line by line, and
`notice` formats news for the model. The caller that starts a task supplies its work.
"""
