"""Child processes: all of them are started, watched, and ended with their descendants here.

`spawn.Launcher` starts children. `tree.Child` is one child with its descendants.
`output.ProcessOutput` keeps their output in bounded memory. `run.run` joins the three. `watcher` is
the program that is the parent of the children. docs/using/tools.md names what cannot be ended.
"""
