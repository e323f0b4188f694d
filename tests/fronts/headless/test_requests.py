"""What leaves the machine, and when.

The complete history each time, and no prompt before it is on disk.
"""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, environment, transcripts
from tests.fronts.terminal.terminal import Terminal
from tests.requirements import requirement

LOOK = {"content": [{"tool": "Bash", "input": {"command": "echo looked"}}]}


def texts(body: dict[str, Any]) -> list[str]:
    """Return all text of a request in order, without cache marks."""
    found = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [
            json.dumps({k: v for k, v in block.items() if k != "cache_control"}) for block in blocks
        ]
    return found


@requirement("R255")
def test_every_request_carries_the_whole_history_and_leans_on_no_memory(tmp_path: Path) -> None:
    answers = [LOOK, {"text": "One."}, LOOK, LOOK, {"text": "Two."}, {"text": "Three."}]
    with serving({"scenario": 1, "answers": answers}, strict=True) as server:
        for prompt in ("first", "second", "third"):
            more = ["--continue"] if transcripts(tmp_path) else []
            done = clew(tmp_path, server.url, "-p", prompt, *more, "--allowedTools", "Bash(echo:*)")
            assert done.returncode == 0, done.stderr
        bodies = [request.body for request in server.requests]
    assert len(bodies) == 6
    for earlier, later in pairwise(bodies):
        assert texts(later)[: len(texts(earlier))] == texts(earlier)
        assert len(texts(later)) > len(texts(earlier))
    for body in bodies:
        assert {"system", "tools", "messages"} <= set(body)
        assert not {"container", "previous_response_id", "conversation"} & set(body)


@requirement("R257", "W23")
@pytest.mark.parametrize("interactive", [False, True])
def test_a_prompt_is_on_disk_before_it_leaves_the_machine(
    tmp_path: Path, interactive: bool
) -> None:
    on_disk: list[bool] = []

    def look(_: object) -> None:
        kept = [path.read_text("utf-8") for path in transcripts(tmp_path)]
        on_disk.append(any("remember me" in text for text in kept))

    said = {"scenario": 1, "answers": [{"text": "Yes."}]}
    with serving(said, strict=True, on_request=look) as server:
        if interactive:
            with Terminal(tmp_path, server.url) as terminal:
                terminal.expect("> ")
                terminal.type("remember me\n")
                terminal.expect("Yes.")
        else:
            clew(tmp_path, server.url, "-p", "remember me")
    assert on_disk == [True]


@pytest.mark.parametrize("levels", [99, 150, 199])
def test_a_call_whose_input_is_nested_deeply_goes_back_as_it_was(
    tmp_path: Path, levels: int
) -> None:
    given: dict[str, Any] = {"command": "echo here"}
    for _ in range(levels - 1):
        given = {"command": "echo here", "more": given}
    plan = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Bash", "input": given}]},
            {"text": "Done.", "times": "always"},
        ],
    }
    with serving(plan, strict=True) as server:
        for words in (["one"], ["two", "--continue"]):
            done = clew(tmp_path, server.url, "-p", *words)
            assert (done.returncode, done.stdout, done.stderr) == (0, "Done.\n", "")
        for request in server.requests[1:]:
            (call,) = (
                block
                for message in request.body["messages"]
                for block in message["content"]
                if block["type"] == "tool_use"
            )
            assert call["input"] == given


@requirement("R223", "R246")
def test_a_prompt_may_set_tokens_aside_and_is_worked_on_until_they_are_used(
    tmp_path: Path,
) -> None:
    long = {"text": "More.", "usage": {"output_tokens": 900}}
    plan = {"scenario": 1, "answers": [long, long, long, {"text": "Never asked."}]}
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "+3k look at everything", "--output-format", "json")
        assert len(server.requests) == 3
    assert json.loads(done.stdout)["usage"]["output_tokens"] == 2_700


@pytest.mark.parametrize("front", [(), ("--output-format", "stream-json", "--verbose")])
def test_a_turn_without_a_call_loads_no_reader_of_command_lines_and_nothing_large_of_others(
    tmp_path: Path, front: tuple[str, ...]
) -> None:
    listing = (
        f"import sys; from clew.cli import main; main(['-p', 'hi', *{front!r}]);"
        " print(*sorted(sys.modules), file=sys.stderr)"
    )
    with serving({"scenario": 1, "answers": [{"text": "Yes."}]}, strict=True) as server:
        done = subprocess.run(
            [sys.executable, "-c", listing],
            env=environment(tmp_path, server.url),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
    loaded = set(done.stderr.split())
    assert "clew.permissions.rules" in loaded
    heavy = ("decide", "command_line", "shell", "wrappers", "readonly", "suggest")
    assert not {f"clew.permissions.{name}" for name in heavy} & loaded
    assert not {"tree_sitter", "clew.agent.reviewer"} & loaded
    large = {"pydantic", "anthropic", "mcp", "httpx2", "httpcore2", "rich", "prompt_toolkit"}
    assert not large & loaded
