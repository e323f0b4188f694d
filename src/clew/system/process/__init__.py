"""Child processes: every child is started, watched, and ended with all its descendants here.

`spawn.Launcher` starts children. `tree.Child` is one child with its descendants.
`output.ProcessOutput` stores their output in bounded memory. `run.run` joins the three. `watcher`
is the program that runs on the other side. docs/using/tools.md names what cannot be reached.
"""
