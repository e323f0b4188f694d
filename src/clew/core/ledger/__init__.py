"""The state of a session, its cost, and how much of the context window it fills.

Nothing here does I/O: it is values, events that change them and sums over recorded usage. Other
packages store and display them. docs/using/cost.md explains the arithmetic.
"""
