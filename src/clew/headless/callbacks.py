"""Functions of the host at the events of a session: registered in the handshake, called over the channel.

An event that this version does not know, or a matcher that says nothing usable, is not an error: hosts
register for more than each backend has.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias

from clew.headless.host import Host
from clew.hooks.events import BY_NAME
from clew.hooks.handlers import Callback, Hook

Json: TypeAlias = dict[str, Any]
Call: TypeAlias = Callable[[Json, str | None], Awaitable[Json]]

HOST = "host"


def hooks_of(given: Any, host: Host) -> list[Hook]:
    """The hooks that a handshake registers."""
    events = given.items() if isinstance(given, dict) else ()
    return [
        hook
        for name, matchers in events
        if name in BY_NAME and isinstance(matchers, list)
        for matcher in matchers
        if isinstance(matcher, dict)
        for hook in of_matcher(name, matcher, host)
    ]


def of_matcher(event: str, matcher: Json, host: Host) -> Iterator[Hook]:
    pattern, timeout = matcher.get("matcher"), matcher.get("timeout")
    ids = matcher.get("hookCallbackIds")
    for callback_id in ids if isinstance(ids, list) else ():
        if isinstance(callback_id, str):
            yield Hook(
                event=BY_NAME[event],
                matcher=pattern if isinstance(pattern, str) else "",
                source=HOST,
                handler=Callback(
                    call=calling(host, callback_id),
                    timeout=timeout if isinstance(timeout, int | float) else None,
                    blocks_on_failure=matcher.get("onFailure") == "block",
                ),
            )


def calling(host: Host, callback_id: str) -> Call:
    async def call(given: Json, tool_use_id: str | None) -> Json:
        fields = {"callback_id": callback_id, "input": given, "tool_use_id": tool_use_id}
        return await host.ask("hook_callback", fields)

    return call
