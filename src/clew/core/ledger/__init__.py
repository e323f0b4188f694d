"""The state of a session, its cost, and how much of the context window it fills.

This package does no I/O: it contains values, events that change them, and sums over recorded usage.
Other packages store and display them. docs/using/cost.md explains the arithmetic.
"""
