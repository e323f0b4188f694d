"""`--setting-sources` decides which memory files and MCP servers a session has, besides its settings."""

import json
from pathlib import Path

import pytest

from clew.record.transcript.paths import get_project_dir
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.requirements import requirement

HELLO = {"scenario": 1, "answers": [{"text": "Hello!", "times": "always"}]}


@requirement("R116")
@pytest.mark.parametrize(
    ("flags", "loaded"),
    [
        ((), {"user", "project", "local", "memo"}),
        (("--setting-sources", ""), set()),
        (("--setting-sources", "user"), {"user", "memo"}),
        (("--setting-sources", "project"), {"project"}),
        (("--setting-sources", "local,project"), {"project", "local"}),
    ],
)
def test_memory_and_servers_come_from_the_sources_alone(
    tmp_path: Path, flags: tuple[str, ...], loaded: set[str]
) -> None:
    work, config = tmp_path / "work", tmp_path / "config"
    for folder in (work, config):
        folder.mkdir(exist_ok=True)
    (config / "CLAUDE.md").write_text("words of user\n", "utf-8")
    (work / "CLAUDE.md").write_text("words of project\n", "utf-8")
    (work / "CLAUDE.local.md").write_text("words of local\n", "utf-8")
    servers = {"mcpServers": {"theirs": {"command": "false"}}}
    (work / ".mcp.json").write_text(json.dumps(servers), "utf-8")
    memories = get_project_dir(config, str(work)) / "memory"
    memories.mkdir(parents=True)
    (memories / "MEMORY.md").write_text("words of memo\n", "utf-8")
    with serving(HELLO, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "hi", *flags)
    asked = json.dumps(server.requests[0].body)
    names = ("user", "project", "local", "memo")
    assert {name for name in names if f"words of {name}" in asked} == loaded
    assert ("theirs" in done.stderr) is ("project" in loaded)
