"""`clew context` as a process: the parts of the next request, compared with the requests sent."""

import json
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts

NOWHERE = "http://127.0.0.1:9"
USAGE = {"input_tokens": 11, "output_tokens": 9, "cache_creation_input_tokens": 7000}
PLAN = {
    "scenario": 1,
    "answers": [
        {"content": ["I look.", {"tool": "Glob", "input": {"pattern": "*"}}], "usage": USAGE},
        {"text": "Done.", "usage": USAGE, "times": "always"},
    ],
}


def context(home: Path, *args: str) -> dict[str, Any]:
    done = clew(home, NOWHERE, "context", "--json", *args)
    assert (done.returncode, done.stderr) == (0, "")
    said: dict[str, Any] = json.loads(done.stdout)
    assert sum(part["tokens"] for part in said["parts"]) == said["tokens"]
    return said


def kinds(said: dict[str, Any]) -> set[str]:
    return {part["kind"] for part in said["parts"]}


def test_a_session_is_as_large_as_the_service_counted_and_its_parts_are_named(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "CLAUDE.md").write_text("Use tabs.", "utf-8")
    with serving(PLAN, strict=True) as server:
        clew(tmp_path, server.url, "-p", "look")
        (path,) = transcripts(tmp_path)
        said = context(tmp_path, path.stem)
        body = server.requests[-1].body
    assert said["tokens"] == said["countedTokens"] == 7020
    named = {(part["kind"], part["name"]) for part in said["parts"]}
    at_once = [tool for tool in body["tools"] if not tool.get("defer_loading")]
    assert {("tools", tool["name"]) for tool in at_once} <= named
    assert ("tool results", "Glob") in named
    assert ("memory files", "instructions") in named
    assert {"system prompt", "context", "user", "assistant", "tool calls"} <= kinds(said)


def test_a_new_session_is_estimated_from_what_it_will_be_told(tmp_path: Path) -> None:
    said = context(tmp_path)
    assert said["countedTokens"] is None
    assert kinds(said) == {"system prompt", "tools", "context"}
    (tmp_path / "work" / "CLAUDE.md").write_text("Use tabs.", "utf-8")
    assert kinds(context(tmp_path)) == {"system prompt", "tools", "context", "memory files"}
    clew(tmp_path, NOWHERE, "-p", "/remember The lighthouse is white.")
    told = {part["name"] for part in context(tmp_path)["parts"] if part["kind"] == "memory files"}
    assert told == {"instructions", "memory_folder"}
    shown = clew(tmp_path, NOWHERE, "context").stdout
    assert "Instructions" in shown.partition("Memory files  ")[2]
    assert "estimated" in shown
    assert not transcripts(tmp_path)


def test_a_session_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = clew(tmp_path, NOWHERE, "context", "missing.jsonl")
    assert done.returncode == 2
    assert done.stderr.startswith("clew context: missing.jsonl")
