"""Subagents in the published layout, each run by the real program and read by the SDK."""

import json
import shutil
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from claude_agent_sdk import get_subagent_messages, list_subagents

from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, results, uses
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.test_agents import agent_files

Json: TypeAlias = dict[str, Any]
PUBLISHED = Path(__file__).parent / "published"
SERVER = (
    Path(__file__).parents[2]
    / "parts"
    / "plugins"
    / "published"
    / "toolkit"
    / "scripts"
    / "server.py"
)
COUNTING = "---\nname: counting\ndescription: Counts\n---\nCount lines with wc -l."


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shutil.copytree(PUBLISHED / "agents", tmp_path / "config" / "agents")
    skill = tmp_path / "config" / "skills" / "counting" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(COUNTING, "utf-8")
    (tmp_path / "work").mkdir()
    shutil.copy(SERVER, tmp_path / "work" / "books.py")
    (tmp_path / "work" / "table.csv").write_text("a,b\n1,2\n", "utf-8")
    return tmp_path


def worked(home: Path, kind: str, words: str, *steps: Json) -> tuple[str, list[Json]]:
    """Return the session's last answer and the subagent's requests, for this prompt."""
    asked = {
        "go": [
            uses(agent("do it", subagent_type=kind)),
            lambda body: {"text": "\n".join(results(body))},
        ],
        "do it": [*steps, {"text": "it is done"}],
        "Begin with": [*steps, {"text": "it is done"}],
        "<task-notification>": [{"text": "heard of its end"}],
    }
    allowed = "Bash(wc:*),Bash(rm:*),Bash(touch:*),mcp__books"
    with serving(by_prompt(asked), strict=True) as server:
        ran = clew(home, server.url, "-p", "go", "--allowedTools", allowed)
        assert (ran.returncode, ran.stderr) == (0, "")
        bodies = [request.body for request in server.requests]
    return ran.stdout, [body for body in bodies if body["system"][0]["text"].startswith(words)]


def tools(body: Json) -> list[str]:
    return [tool["name"] for tool in body["tools"]]


def bash(line: str) -> Json:
    return {"tool": "Bash", "input": {"command": line}}


def test_every_file_is_listed_and_a_note_among_them_is_none(home: Path) -> None:
    ran = clew(home, "http://127.0.0.1:9", "-p", "/agents")
    assert ran.stderr == ""
    for name in ("analyst", "code-reviewer", "debugger", "keeper"):
        assert f"{name} " in ran.stdout
    assert ran.stdout.count("user ") == 4
    assert "README" not in ran.stdout


def test_one_with_a_list_of_tools_has_these_and_the_sessions_model(home: Path) -> None:
    said, (body,) = worked(home, "code-reviewer", "You review changes.")
    assert said.startswith("it is done\n")
    assert tools(body) == ["Bash", "Glob", "Grep", "Read"]
    assert body["model"].startswith("claude-sonnet")


def test_one_of_mode_plan_looks_and_changes_nothing(home: Path) -> None:
    said, bodies = worked(home, "debugger", "You find causes.", uses(bash("touch made.txt")))
    assert said.startswith("it is done\n")
    assert all(body["model"].startswith("claude-haiku") for body in bodies)
    assert results(bodies[-1]) != [""]
    assert not (home / "work" / "made.txt").exists()


def test_one_with_all_that_a_head_may_say_has_it(home: Path) -> None:
    steps = uses(bash("wc -l table.csv"), bash("rm table.csv"))
    said, bodies = worked(home, "analyst", "You answer with numbers", steps)
    assert said.startswith("it is done\n")
    assert tools(bodies[0]) == ["Bash", "Read"]
    assert bodies[0]["output_config"]["effort"] == "high"
    told = json.dumps(bodies[0]["messages"])
    assert "Begin with the header line." in told
    assert "Count lines with wc -l." in told
    assert str(home / "work" / ".claude" / "agent-memory" / "analyst") in told
    counted, removed = results(bodies[-1])
    assert counted == "2 table.csv"
    assert (home / "work" / "table.csv").exists()
    assert "denie" in removed or "not permitted" in removed


def test_one_in_the_background_brings_its_server_and_its_hooks(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recall = {"tool": "mcp__books__recall", "input": {}}
    said, bodies = worked(home, "keeper", "You keep the books.", uses(recall))
    assert said.endswith("\nheard of its end\n")
    assert "mcp__books__recall" in tools(bodies[0])
    assert results(bodies[-1]) == ["the combination is 1234"]
    assert (home / "work" / "asked.txt").read_text("utf-8") == "asked\n"
    (path,) = agent_files(home)
    meta = json.loads(path.with_suffix(".meta.json").read_text("utf-8"))
    assert (meta["agentType"], meta["isBuiltIn"]) == ("keeper", False)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "config"))
    (session,), folder = transcripts(home), str(home / "work")
    (agent_id,) = list_subagents(session.stem, directory=folder)
    read = get_subagent_messages(session.stem, agent_id, directory=folder)
    assert [message.type for message in read] == ["user", "assistant", "user", "assistant"]
