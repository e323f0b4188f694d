"""The published modules `bridge` and `browser` of the Agent SDK work unmodified at the server."""

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.served import served

PACKAGE = "@anthropic-ai/claude-agent-sdk"
VERSION = "0.3.330"
SCRIPTS = Path(__file__).parent
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


async def run_scenarios(folder: Path, modules: Path, script: str) -> None:
    """Run the scenarios against a server in this process; their output is this process's."""
    async with served(folder) as server:
        await server.add_device("phone", "view", "answer", "prompt", "start")
        process = await asyncio.create_subprocess_exec(
            "node", "--experimental-websocket", str(SCRIPTS / script),
            server.url, server.token, str(modules),
        )  # fmt: skip
        assert await process.wait() == 0


async def observe(tmp_path: Path, script: str) -> dict[str, Any]:
    """Return what the scenarios of a script observed."""
    modules = await install_modules()
    # Nothing but the server is there: neither module talks to anybody else.
    inside = [sys.executable, "-m", "tests.serve.test_published", str(tmp_path), str(modules)]
    process = await asyncio.create_subprocess_exec(
        "unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh",
        *inside, script,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        },
        start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(110):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output.decode()
    seen: dict[str, Any] = json.loads(output.splitlines()[-1])
    return seen


@requirement("R289")
@pytest.mark.e2e
async def test_published_workers_and_viewers_meet_at_the_server(tmp_path: Path) -> None:
    seen = await observe(tmp_path, "published.mjs")
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
        "registered": [1, 2],
        "registeredSaid": "registered",
        "laxer": "not from afar",
        "modes": ["bypassPermissions", "plan"],
        "thinking": [1000],
        "live": True,
        "envelope": ["string", True, "worker"],
        "away": ["numbered", "while away"],
        "odd": True,
        "lateDeltas": 0,
        "withdrawn": True,
        "prompts": ["from afar"],
        "socketInbound": "hello socket",
        "socket": ["over the socket", "allow"],
        "socketLate": ["user", "assistant", "result"],
        "socketWrong": True,
        "mute": ["error", "success"],
    }


@pytest.mark.e2e
async def test_published_modules_lose_and_repeat_nothing_on_a_bad_network(tmp_path: Path) -> None:
    assert await observe(tmp_path, "unreliable.mjs") == {
        "got": [
            "begun", "lost", "repeated", "first", "second", "third", "after the cut",
            "after the refusal",
        ],
        "inbound": ["twice", "in the gap"],
        "answers": ["allow"],
        "askedAgain": False,
        "many": [300, True],
        "beats": True,
        "revokedWorker": 401,
        "revokedViewer": 401,
        "afterAll": 1,
        "wrongEpoch": 4090,
        "unregistered": 4091,
        "expired": 4090,
        "once": [1, 1],
    }  # fmt: skip


if __name__ == "__main__":
    asyncio.run(run_scenarios(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
