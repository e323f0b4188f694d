"""The tools that the model can call.

`base` defines the tool interface, `schema` the input schemas and their validation, and `registry`
lists the built-in tools. Whether a call may run is decided in `permissions`; when it runs is
decided in `agent.executor`.
"""
