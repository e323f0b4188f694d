"""Hooks outside a session: for dry runs, and for events before the session exists.

Models and MCP servers are not available here, and nothing is recorded.

Decision: docs/decisions/130-hooks.md
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clew.agent.hooks.handlers import HookListing
from clew.agent.hooks.reach import Reach
from clew.agent.hooks.run import Here, SessionHooks
from clew.permissions.session_rules import CurrentRules
from clew.system.config.environment import freeze
from clew.system.process.spawn import Launcher
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import read_network

NO_SESSION = "00000000-0000-4000-8000-000000000000"


@asynccontextmanager
async def open_hooks(stood: CurrentRules, listing: HookListing) -> AsyncIterator[SessionHooks]:
    """Open the hooks for a folder; processes that they start end with the `async with` block."""
    cwd = str(stood.places.cwd)
    launcher, transport = Launcher(), HttpTransport(read_network(freeze(stood.environ)))
    try:
        reach = Reach(
            launcher=launcher,
            environment=lambda: stood.environ,
            project=cwd,
            cwd=lambda: cwd,
            transport=transport,
        )
        hooks = SessionHooks(
            reach,
            read_state=lambda: Here(found=listing, context=stood.context, resolve=stood.resolve),
            base=lambda: {
                "session_id": NO_SESSION,
                "transcript_path": "",
                "cwd": cwd,
                "permission_mode": stood.context.mode,
            },
        )
        async with hooks:
            yield hooks
    finally:
        await transport.aclose()
        await launcher.aclose()
