"""The program reads every variable of the table, and no other."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from clew.system.config.environment import BY_FIELD, VARIABLES
from clew.system.config.paths import find_places
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, environment
from tests.parts.mcp.yard import entry
from tests.requirements import requirement

PROGRAM = Path(__file__).with_name("told_variables.py")
# These are read before there is a table, by the folder that settings lie in; see the test of places.
PLACES = {"config_dir"}
# The command line looks for it before anything is loaded; see tests/fronts/headless/test_keys_hidden.py.
AT_THE_DOOR = {"dumpable"}
# A first run at a terminal looks for a local service; see tests/fronts/terminal/test_first_run.py.
AT_A_TERMINAL = {"ide_port", "ollama", "side_requests_disabled"}
# Read by their names where a host listens, and where a store is at a URL; tests/gates/test_tables.py sees it.
OF_HOSTS = {"prompt_suggestions", "entrypoint", "emits_state", "reads_state", "tool_summaries"}
OF_STORES = {"store_token"}
# Read by their names when a service is opened; see tests/fronts/headless/test_services.py.
OF_SERVICES = {
    v.field for v in VARIABLES if v.field.startswith(("key of ", "URL of ", "place of "))
}
# Read with `--remote` alone.
OF_REMOTE = {"remote_url", "remote_token"}


def asked(home: Path, url: str, *args: str, without: str = "") -> None:
    variables = {k: v for k, v in environment(home, url).items() if k != without}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(home / "note"), *args],
        cwd=home / "work",
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr


@requirement("R115", "R244")
def test_every_variable_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    helper = {"description": "d", "prompt": "p", "subagent_type": "general-purpose"}
    calls = [
        {"tool": "Bash", "input": {"command": "true"}},
        {"tool": "mcp__memo__echo", "input": {"text": "x"}},
        {"tool": "Agent", "input": helper},
    ]
    plan = {"scenario": 1, "answers": [{"content": calls}, {"text": "Done.", "times": "always"}]}
    servers = json.dumps({"mcpServers": {"memo": entry("honest")}})
    with serving(plan) as server:
        allowed = ("--allowedTools", "Bash", "--allowedTools", "mcp__memo")
        asked(tmp_path, server.url, "-p", "go", "--mcp-config", servers, *allowed)
        asked(tmp_path, server.url, "doctor", "--offline")
    found = set((tmp_path / "note").read_text("utf-8").split())
    elsewhere = (
        PLACES | AT_THE_DOOR | AT_A_TERMINAL | OF_HOSTS | OF_STORES | OF_REMOTE | OF_SERVICES
    )
    assert {v.field for v in VARIABLES} - found == elsewhere


@pytest.mark.parametrize("name", BY_FIELD["config_dir"].names)
def test_the_config_home_is_where_its_variables_say(tmp_path: Path, name: str) -> None:
    places = find_places({name: "/else", "HOME": "/home/me"}, tmp_path)
    assert places.config_home == Path("/else")


@pytest.mark.parametrize("name", ["HOME", "USERPROFILE"])
def test_home_is_where_its_variables_say(tmp_path: Path, name: str) -> None:
    places = find_places({name: "/home/me"}, tmp_path)
    assert places.home == Path("/home/me")


@pytest.mark.parametrize(
    ("field", "missing"),
    [
        ("bedrock", "AWS_REGION"),
        ("vertex", "ANTHROPIC_VERTEX_PROJECT_ID"),
        ("foundry", "ANTHROPIC_FOUNDRY_RESOURCE"),
    ],
)
def test_a_cloud_that_is_not_set_up_gets_nothing_and_neither_does_another(
    tmp_path: Path, field: str, missing: str
) -> None:
    with serving({"scenario": 1, "answers": [{"text": "x"}]}) as server:
        for name in BY_FIELD[field].names:
            env = environment(tmp_path, server.url) | {name: "1"}
            (tmp_path / "work").mkdir(exist_ok=True)
            done = subprocess.run(
                [sys.executable, "-m", "clew", "-p", "hi"],
                cwd=tmp_path / "work",
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                timeout=60,
                check=False,
            )
            assert done.returncode == 1
            assert missing in done.stdout + done.stderr
        assert server.requests == []
        done = clew(tmp_path, server.url, "doctor", "--offline")
    assert "cannot speak" not in done.stdout
