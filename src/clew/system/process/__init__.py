"""Child processes: everything that starts and watches them, and ends them with their descendants.

`spawn.Launcher` starts children. `tree.Child` is one child with its descendants.
`output.ProcessOutput` keeps their output in bounded memory. `run.run` combines these three.
`watcher` is the program that is the parent of the children. docs/using/tools.md lists what cannot
be ended.
"""
