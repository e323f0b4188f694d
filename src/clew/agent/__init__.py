"""One turn of the agent: its loop, tool calls, hooks, context, compaction and background tasks."""
