"""The tools the model calls: each a value with a schema, judged by its input, run through one door.

`base` says what a tool is, `schema` checks inputs and runs a tool, `registry` lists them.
Which calls may run is not decided here (`permissions`), nor when (`agent.executor`).
"""
