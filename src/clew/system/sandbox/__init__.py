"""The operating system's walls around commands: what they may write, read and reach.

`policy` is what settings come to, one value that every wall is built from; `backends` builds them
(bubblewrap, Landlock, seatbelt), `proxy` is the only way out to the network, `box` chooses what works here by
trying it. Whoever is promised a sandbox and cannot have one is told, and nothing runs. What each wall
holds and does not hold is in docs/using/sandbox.md.
"""
