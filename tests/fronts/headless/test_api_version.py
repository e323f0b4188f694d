"""An older gateway keeps working: the real program learns its version once, and remembers it."""

import json
import subprocess
from pathlib import Path

from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless.clew_process import clew, command, environment

HELLO = {"scenario": 1, "answers": [{"text": "Hello.", "times": "always"}]}
EARLIER, LATER = "2023-06-01", "2026-10-21"


def versions(server: LoopbackServer) -> list[str | None]:
    return [r.header("anthropic-version") for r in server.requests if "count" not in r.target]


def test_the_later_version_is_spoken_unless_something_else_is_said(tmp_path: Path) -> None:
    settings = json.dumps({"apiVersion": EARLIER})
    with serving(HELLO, strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "hi").stdout == "Hello.\n"
        assert clew(tmp_path, server.url, "-p", "hi", "--settings", settings).returncode == 0
        done = subprocess.run(
            command("-p", "hi", "--settings", settings),
            cwd=tmp_path / "work",
            env=environment(tmp_path, server.url) | {"CLEW_API_VERSION": LATER},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0
        assert versions(server) == [LATER, EARLIER, LATER]
    assert not (tmp_path / "config" / "clew" / "api-versions.json").exists()


def test_an_older_gateway_is_refused_once_and_never_again(tmp_path: Path) -> None:
    with serving(HELLO, strict=True, api_versions=(EARLIER,)) as server:
        for _ in range(2):
            done = clew(tmp_path, server.url, "-p", "hi")
            assert (done.stdout, done.stderr) == ("Hello.\n", "")
        assert versions(server) == [LATER, EARLIER, EARLIER]
        kept = json.loads((tmp_path / "config" / "clew" / "api-versions.json").read_text("utf-8"))
        assert kept[server.url]["version"] == EARLIER


def test_a_version_that_is_none_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "hi", "--settings", '{"apiVersion": "latest"}')
        assert done.returncode == 1
        assert "must be a date such as 2026-10-21, got 'latest'" in done.stdout + done.stderr
        assert server.requests == []
