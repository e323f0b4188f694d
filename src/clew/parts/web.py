"""WebFetch and WebSearch, with a shared cache of fetched pages."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from clew.agent.tools.base import Tool
from clew.agent.tools.web import WebFetch, WebSearch
from clew.parts.context import Ground
from clew.parts.part import Part
from clew.permissions.in_session import SessionRules
from clew.system.config.settings import read_list, read_text
from clew.system.transport.network import read_network
from clew.system.web_fetch import Web


class WebPart(Part):
    name = "web"

    def __init__(self, ground: Ground) -> None:
        self._settings = ground.began.settings
        self._web = Web(read_network(ground.environment), partial(read_private_hosts, ground.rules))

    def tools(self) -> Sequence[Tool[Any]]:
        address = read_text(self._settings, "webSearchEndpoint")
        return WebFetch(self._web), WebSearch(self._web, address)

    async def aclose(self) -> None:
        await self._web.aclose()


def read_private_hosts(rules: SessionRules) -> tuple[str, ...]:
    """Return the hosts with private addresses that the settings allow WebFetch to access."""
    return read_list(rules.standing.settings, "webPrivateHosts") or ()
