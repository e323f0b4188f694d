"""Work that goes on beside the conversation: commands in the background, monitors, and others' kinds.

`registry` holds what runs and what became of it; `lines` watches an output line by line; `notice`
puts into words what the model should know of. What a task does is brought by whoever begins it.
"""
