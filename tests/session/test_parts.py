"""The parts of a session: opened in order, closed in reverse, and all of them if one fails."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from clew.agent.options import Options
from clew.core.messages.errors import SettingsError
from clew.parts.part import Part
from clew.session.build import open_session
from clew.session.parts import SessionParts
from clew.testing.server import serving
from tests.fronts.headless.clew_process import environment
from tests.session.test_build import nobody

NAMES = list(SessionParts.__struct_fields__)


class Telling(Part):
    """Writes down what is done with it."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self._told = told

    async def open(self, _: Any, /) -> None:
        self._told.append(f"open {self.name}")

    async def aclose(self) -> None:
        self._told.append(f"close {self.name}")

    def notices(self) -> list[str]:
        return [self.name]


def test_parts_are_opened_and_asked_in_their_order_and_closed_backwards() -> None:
    told: list[str] = []
    fakes: dict[str, Any] = {name: Telling(name, told) for name in NAMES}
    context: Any = None
    parts = SessionParts(**fakes)

    async def live() -> None:
        await parts.open(context)
        await parts.aclose()

    asyncio.run(live())
    assert told == [f"open {name}" for name in NAMES] + [f"close {name}" for name in NAMES[::-1]]
    assert parts.notices() == NAMES


def test_a_session_that_cannot_be_made_leaves_nothing_running(tmp_path: Path) -> None:
    async def attempt(url: str) -> int:
        environ = {**os.environ, **environment(tmp_path, url)}
        options = Options(mcp_config=("nowhere.json",))
        with pytest.raises(SettingsError):
            async with open_session(options, environ, str(tmp_path), nobody, entrypoint="cli"):
                raise AssertionError
        return len(asyncio.all_tasks())

    with serving({"scenario": 1, "answers": []}) as server:
        assert asyncio.run(attempt(server.url)) == 1


async def names_of_parts(home: Path, url: str) -> list[str]:
    environ = {**os.environ, **environment(home, url)}
    async with open_session(Options(), environ, str(home), nobody, entrypoint="cli") as opened:
        # A plain part takes the places of packages and of telemetry, which are not switched on.
        return [part.name for part in opened.parts if type(part) is not Part]


def test_every_part_has_a_name_of_its_own(tmp_path: Path) -> None:
    with serving({"scenario": 1, "answers": []}) as server:
        names = asyncio.run(names_of_parts(tmp_path, server.url))
    assert len(set(names)) == len(names) == len(NAMES) - 2
