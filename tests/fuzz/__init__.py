"""A fuzzer for permission decisions: generated command lines are judged, and bash runs the allowed ones.

`make fuzz` runs it. `world` builds the files, `box` runs lines in a sandbox that notices everything,
`grammar` generates, `hunt` joins them, `holes` breaks the tables on purpose.
"""
