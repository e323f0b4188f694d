"""The published modules `bridge` and `browser` of the Agent SDK work unmodified at the server."""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.serve.served import served

PACKAGE = "@anthropic-ai/claude-agent-sdk"
VERSION = "0.3.330"
SCRIPT = Path(__file__).with_name("published.mjs")
# Installed once for each environment, next to the other published programs.
FOLDER = Path(sys.prefix) / "published-modules"


async def install_modules() -> Path:
    modules = FOLDER / "node_modules" / PACKAGE
    if not (modules / "bridge.mjs").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        npm = shutil.which("npm")
        assert npm is not None, "this test needs Node.js with npm"
        process = await asyncio.create_subprocess_exec(
            npm, "install", "--silent", "--ignore-scripts", "--prefix", str(FOLDER),
            f"{PACKAGE}@{VERSION}",
        )  # fmt: skip
        assert await process.wait() == 0
    assert json.loads((modules / "package.json").read_text("utf-8"))["version"] == VERSION
    return modules


@pytest.mark.e2e
async def test_published_workers_and_viewers_meet_at_the_server(tmp_path: Path) -> None:
    modules = await install_modules()
    async with served(tmp_path) as server:
        process = await asyncio.create_subprocess_exec(
            "node", "--experimental-websocket", str(SCRIPT), server.url, server.token, str(modules),
            stdout=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )  # fmt: skip
        try:
            async with asyncio.timeout(90):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    seen = json.loads(output.splitlines()[-1])
    rejected = {"terminal": False, "reason": "oauth_rejected"}
    assert seen.pop("session").startswith("cse_")
    assert set(seen.pop("drops")) <= {"expected_echo"}
    assert seen.pop("epochs") == [1, 2]
    assert seen == {
        "inbound": ["hello"],
        "asked": [["Bash", {"command": "q1"}]],
        "answers": ["allow"],
        "viewed": ["user", "assistant", "result"],
        "delivered": ["DELIVERY_STATUS_RECEIVED", "DELIVERY_STATUS_PROCESSED"],
        "late": ["user", "assistant", "result"],
        "lateAsked": [],
        "after": "after",
        "sequence": True,
        "superseded": 4090,
        "tooLate": False,
        "answeredBy": "second",
        "interrupted": True,
        "model": "opus",
        "shown": ["running", "main", "connected"],
        "carried": True,
        "mirrored": "mirrored",
        "noToken": rejected,
        "noBridge": rejected,
        "noSession": {"terminal": True, "reason": "request_rejected", "status": 404},
        "badName": {"terminal": True, "reason": "invalid_session_id"},
        "viewer": 401,
    }
