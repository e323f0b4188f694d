"""Every child process goes through here: started, watched, and ended with its whole tree.

`spawn.Launcher` starts children, `tree.Child` is one of them with all that descends from it,
`output.ProcessOutput` keeps what it prints in bounded memory, `run.run` joins the three. `watcher` is the
program on the other side. What cannot be reached is named in docs/using/tools.md.
"""
