"""One turn and what it needs: the loop, the executor of calls, tools, hooks, context, compaction, background tasks."""
