"""What a session knows of itself: its state, what it cost, how much of the window it fills.

All of it is pure and small: values, events that change them, sums over recorded usage. Who writes them
down and who shows them lives elsewhere. The arithmetic is told in docs/using/cost.md.
"""
