"""Background tasks that still run when a program leaves its client."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.testing.server import serving
from tests.fronts.headless.agents_model import by_prompt, uses
from tests.fronts.headless.test_kept import in_background, pid_of, waits
from tests.fronts.sdk.test_client import options, said
from tests.system.process.processes import wait_ended

ANSWERS: dict[str, list[Any]] = {"go": [uses(in_background(waits("c"))), {"text": "it serves"}]}


@pytest.mark.parametrize("way", ["client", "query"])
async def test_a_client_that_is_left_stops_background_commands(tmp_path: Path, way: str) -> None:
    with serving(by_prompt(ANSWERS), strict=True) as server:
        given = options(tmp_path, server.url, allowed_tools=["Bash"])
        async with asyncio.timeout(30):
            if way == "query":
                result = (await said("go", given))[-1]
            else:
                async with clew.ClewClient(given) as client, client.turn("go") as turn:
                    result = await turn.finish()
    assert isinstance(result, clew.Result)
    assert result.text == "it serves"
    wait_ended(pid_of(tmp_path, "c"))
