"""The sandbox around commands: which files they may write and read, and which hosts they reach.

`policy` turns the settings into one value from which every sandbox is built. `backends` builds the
sandbox with bubblewrap, Landlock or seatbelt. `proxy` is the only way to the network. `box` finds
out which backend works on this machine. If a sandbox is required and no backend works, nothing
runs, and the reason is reported. docs/using/sandbox.md lists what each backend can and cannot
enforce.
"""
