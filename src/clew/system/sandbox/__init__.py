"""The sandbox around commands: what they may write, read and connect to.

`policy` is the result of the settings, a single value from which every sandbox is built. `backends`
builds the sandbox with bubblewrap, Landlock or seatbelt. `proxy` is the only way to the network.
`box` tries which backend works on this machine. If a sandbox is required and none works, nothing
runs, and the reason is reported. docs/using/sandbox.md lists what each backend can and cannot
enforce.
"""
