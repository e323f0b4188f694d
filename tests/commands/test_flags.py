"""Feature flags: listed by the program, and off means that the subsystem does not run."""

import json
from pathlib import Path

from clew.testing.server import serving
from tests.fronts.headless.agents_model import uses
from tests.fronts.headless.clew_process import clew
from tests.fronts.headless.host_process import Hosted
from tests.requirements import requirement

NOWHERE = "http://127.0.0.1:9"


def settings(home: Path, **values: object) -> None:
    path = home / "config" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(values), encoding="utf-8")


@requirement("R293")
def test_flags_are_listed_with_what_set_them(tmp_path: Path) -> None:
    settings(tmp_path, features={"landlock": False, "warming": True}, messageThreads=True)
    listed = clew(tmp_path, NOWHERE, "config", "flags", environ={"CLEW_FEATURES": "-mcp, -warming"})
    assert listed.returncode == 0, listed.stderr
    states = dict(line.split(";")[0].split(": ") for line in listed.stdout.splitlines())
    assert states["landlock"] == "off (features.landlock)"
    assert states["mcp"] == states["warming"] == "off (CLEW_FEATURES)"
    assert states["threads"] == "on (messageThreads)"
    assert states["bubblewrap"] == "on (default)"
    wrong = clew(tmp_path, NOWHERE, "config", "flags", environ={"CLEW_FEATURES": "-landlok"})
    assert wrong.returncode == 1
    assert "landlock" in wrong.stderr


@requirement("R293")
def test_what_is_off_does_not_run(tmp_path: Path) -> None:
    """An MCP server, the sandboxes and an import; a missing sandbox is reported."""
    server_mark = tmp_path / "started"
    settings(
        tmp_path,
        features={"mcp": False, "bubblewrap": False, "landlock": False, "seatbelt": False},
        mcpServers={"marks": {"command": "touch", "args": [str(server_mark)]}},
        sandbox={"enabled": True},
    )
    plan = {
        "scenario": 1,
        "answers": [
            uses({"tool": "Bash", "input": {"command": "echo > made"}}),
            {"text": "Done."},
        ],
    }
    with serving(plan) as server, Hosted(tmp_path, server.url) as host:
        host.say("go")
        assert host.result()["result"] == "Done."
        assert host.ask("mcp_status")["response"]["mcpServers"] == []
        host.end()
        told = json.dumps(server.requests[-1].body["messages"])
    assert not server_mark.exists()
    assert not (tmp_path / "work" / "made").exists()
    assert "approval" in told or "sandbox" in told
    brought = clew(
        tmp_path, NOWHERE, "sessions", "import", "x.jsonl", environ={"CLEW_FEATURES": "-importers"}
    )
    assert brought.returncode == 2
    assert "CLEW_FEATURES" in brought.stderr
