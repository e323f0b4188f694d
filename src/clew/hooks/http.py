"""Hooks that are addresses: the event is posted, the answer is the response's body."""

import fnmatch
import re
from collections.abc import Mapping

from msgspec import json

from clew.hooks.handlers import Http
from clew.hooks.output import Ran
from clew.hooks.reach import HookError, Json, Reach
from clew.transport.seam import HttpRequest

MOST_BYTES = 1 << 20
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


async def post(handler: Http, given: Json, reach: Reach) -> Ran:
    if reach.transport is None:
        raise HookError("nothing can be sent from here")
    allowed = reach.allowed_urls()
    if allowed is not None and not any(fnmatch.fnmatchcase(handler.url, each) for each in allowed):
        raise HookError(f"{handler.url} is not among allowedHttpHookUrls")
    headers = filled(handler, reach.environment(), reach.allowed_variables())
    request = HttpRequest(
        method="POST",
        url=handler.url,
        headers=(("Content-Type", "application/json"), *headers.items()),
        body=json.encode(given),
    )
    exchange = reach.transport.exchange(request)
    try:
        head = await exchange.open()
        body = bytearray()
        while data := await exchange.read():
            body += data
            if len(body) > MOST_BYTES:
                raise HookError(f"answered more than {MOST_BYTES >> 20} MiB")
    finally:
        await exchange.close()
    if not 200 <= head.status < 300:
        raise HookError(f"answered with status {head.status}")
    return Ran(stdout=body.decode("utf-8", "replace"), is_structured=True)


def filled(
    handler: Http, environment: Mapping[str, str], allowed: tuple[str, ...] | None
) -> dict[str, str]:
    """The headers, with the variables in them that may be named; others are empty."""
    names = set(handler.allowed_variables)
    if allowed is not None:
        names &= set(allowed)

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return environment.get(name, "") if name in names else ""

    return {name: VARIABLE.sub(value, text) for name, text in handler.headers.items()}
