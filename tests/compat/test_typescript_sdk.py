"""The published TypeScript Agent SDK drives clew, unchanged."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.compat.programs import Program, drives
from tests.compat.sdk_plugin import executable
from tests.fronts.headless.clew_process import environment

MAKES = {
    "scenario": 1,
    "answers": [
        {"content": ["I make it.", {"tool": "Bash", "input": {"command": "mkdir made"}}]},
        {"text": "It is made."},
        {"text": "Still here."},
        {
            "content": [
                {"tool": "Shell", "input": {"command": "mkdir named"}},
                {"tool": "Shell", "input": {"command": "touch forbidden"}},
            ]
        },
        {"text": "By its name."},
        {"text": "Planned.", "times": "always"},
    ],
}


@pytest.mark.e2e
@pytest.mark.compat
@drives("@anthropic-ai/claude-agent-sdk")
def test_the_typescript_sdk_drives_clew(program: Program, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(program.folder / "node_modules")
    script = tmp_path / "drive.mjs"
    script.write_text(Path(__file__).with_name("typescript.mjs").read_text("utf-8"), "utf-8")
    work = program.work
    with serving(MAKES, strict=True) as server:
        done = subprocess.run(
            ["node", str(script)],
            cwd=tmp_path,
            env=environment(tmp_path, server.url)
            | {"CLEW": executable(), "WORK": str(work), "PATH": os.environ["PATH"]},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        told = json.dumps(server.requests[-1].body["messages"])
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["result"] == "It is made."
    assert (work / "made").is_dir()
    assert (seen["asked"], seen["hook"]) == (["Bash"], "Bash")
    assert set(seen["controls"].values()) == {"ok"}, seen["controls"]
    assert seen["again"] == ["Still here.", True]
    assert seen["named"] == ["By its name.", ["Bash"]]
    assert (work / "named").is_dir()
    assert not (work / "forbidden").exists()
    assert seen["planned"] == "Planned."
    assert "Begin with a haiku." in told
    assert seen["kinds"][0] == "init"
    assert "success" in seen["kinds"]
    assert "stream_event" in seen["kinds"]
