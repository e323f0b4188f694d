"""A session that is connected to the user's editor, in a real terminal."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.agent.executor import EDITED
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts, until
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.parts.ide.fake_ide import TOKEN, FakeIde, running_ide

Json = dict[str, Any]
HELLO = {"scenario": 1, "answers": [{"text": "Hello!", "times": "always"}]}


def editing(path: Path, tool: str = "Edit", **fields: Any) -> Json:
    change = fields or {"old_string": "x = 1", "new_string": "x = 2"}
    return {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Read", "input": {"file_path": str(path)}}]},
            {"content": [{"tool": tool, "input": {"file_path": str(path), **change}}]},
            {"text": "So be it.", "times": "always"},
        ],
    }


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\ny = 1\n", "utf-8")
    return folder


@pytest.fixture
def ide(tmp_path: Path, work: Path) -> Iterator[FakeIde]:
    with running_ide(lambda name, _: None if name == "openDiff" else []) as ide:
        ide.announce(tmp_path / "config", work)
        yield ide


def results(server: Any) -> str:
    return json.dumps(server.requests[-1].body["messages"][-1], ensure_ascii=False)


def test_the_selection_goes_into_the_next_prompt_as_the_editors(
    tmp_path: Path, work: Path, ide: FakeIde
) -> None:
    with serving(HELLO) as server, OnScreen(tmp_path, server.url, "--ide") as screen:
        screen.expect("⧉ Vimacs")
        ide.select(work / "a.py", "y = 1\n", 1)
        screen.expect("a.py, 1 line selected")
        screen.type("what is it?\r")
        screen.expect("Hello!")
        screen.type("and now?\r")
        until(lambda: len(server.requests) > 1 and "and now?" in str(server.requests[-1].body))
        screen.expect_rest()
        ide.select(work / "a.py", "", 0)
        screen.expect(lambda text: "selected" not in text)
        screen.type("third\r")
        until(lambda: "third" in str(server.requests[-1].body))
        screen.expect_rest()
        last = json.dumps(server.requests[-1].body["messages"])
    assert last.count("The user selected lines 2-2 of a.py in Vimacs") == 1
    assert last.count("The user has a.py open in Vimacs") == 1
    assert "permits nothing" in last
    assert ide.headers[0]["x-claude-code-ide-authorization"] == TOKEN
    assert "ide_connected" in ide.told
    entries = transcripts(tmp_path)[0].read_text("utf-8")
    assert '"selected_lines_in_ide"' in entries
    assert TOKEN not in entries


def test_a_selection_that_clew_may_not_read_is_not_sent(
    tmp_path: Path, work: Path, ide: FakeIde
) -> None:
    secret = work / ".env"
    secret.write_text("KEY=top-secret\n", "utf-8")
    rules = {"permissions": {"deny": ["Read(.env)"]}}
    with (
        serving(HELLO) as server,
        OnScreen(tmp_path, server.url, "--ide", "--settings", json.dumps(rules)) as screen,
    ):
        screen.expect("⧉ Vimacs")
        for path in (secret, tmp_path / "outside.txt"):
            ide.select(path, "KEY=top-secret", 0)
        ide.send("at_mentioned", filePath="a.py", lineStart=0, lineEnd=1)
        screen.expect("@a.py#L1-2")
        screen.type("look\r")
        screen.expect("Hello!")
        sent = json.dumps([request.body for request in server.requests])
    assert "top-secret" not in sent
    assert "outside.txt" not in sent
    assert "x = 1" in sent


def test_a_change_that_is_accepted_in_the_editor_is_made(
    tmp_path: Path, work: Path, ide: FakeIde
) -> None:
    with (
        serving(editing(work / "a.py")) as server,
        OnScreen(tmp_path, server.url, "--ide") as screen,
    ):
        screen.expect("⧉ Vimacs")
        screen.type("go\r")
        screen.expect("Or answer in Vimacs: save the diff to accept")
        until(lambda: "openDiff" in ide.unanswered)
        ide.finish("openDiff", "FILE_SAVED", "x = 2\ny = 1\n")
        screen.expect("So be it.")
        until(lambda: bool(ide.named("close_tab")))
        told = results(server)
    (shown,) = ide.named("openDiff")
    assert shown["new_file_contents"] == "x = 2\ny = 1\n"
    assert shown["old_file_path"] == shown["new_file_path"] == str(work / "a.py")
    assert ide.named("close_tab") == [{"tab_name": shown["tab_name"]}]
    assert (work / "a.py").read_text("utf-8") == "x = 2\ny = 1\n"
    assert EDITED not in told


@pytest.mark.parametrize(
    ("tool", "fields"),
    [
        ("Edit", {}),
        ("Write", {"content": "x = 2\ny = 1\n"}),
        ("MultiEdit", {"edits": [{"old_string": "x = 1", "new_string": "x = 2"}]}),
    ],
)
def test_the_users_version_of_a_change_is_written_and_the_model_is_told(
    tmp_path: Path, work: Path, ide: FakeIde, tool: str, fields: Json
) -> None:
    plan = editing(work / "a.py", tool, **fields)
    with serving(plan) as server, OnScreen(tmp_path, server.url, "--ide") as screen:
        screen.expect("⧉ Vimacs")
        screen.type("go\r")
        until(lambda: "openDiff" in ide.unanswered)
        ide.finish("openDiff", "FILE_SAVED", "x = 3\ny = 4\n")
        screen.expect("So be it.")
        told = results(server)
    assert (work / "a.py").read_text("utf-8") == "x = 3\ny = 4\n"
    assert EDITED in told


def test_a_change_that_is_rejected_in_the_editor_stops_the_turn(
    tmp_path: Path, work: Path, ide: FakeIde
) -> None:
    with (
        serving(editing(work / "a.py")) as server,
        OnScreen(tmp_path, server.url, "--ide") as screen,
    ):
        screen.expect("⧉ Vimacs")
        screen.type("go\r")
        until(lambda: "openDiff" in ide.unanswered)
        ide.finish("openDiff", "DIFF_REJECTED", "tab")
        screen.expect_gone("Or answer in Vimacs")
        screen.expect_rest()
        until(lambda: bool(ide.named("close_tab")))
    assert (work / "a.py").read_text("utf-8") == "x = 1\ny = 1\n"
    assert len([r for r in server.requests if r.body.get("tools")]) == 2


def test_what_is_no_answer_leaves_the_question_to_the_terminal(
    tmp_path: Path, work: Path, ide: FakeIde
) -> None:
    with (
        serving(editing(work / "a.py")) as server,
        OnScreen(tmp_path, server.url, "--ide") as screen,
    ):
        screen.expect("⧉ Vimacs")
        screen.type("go\r")
        until(lambda: "openDiff" in ide.unanswered)
        ide.finish("openDiff", "TAB_CLOSED")
        # An answer to a question that nobody asked is none either.
        ide.send("openDiff", content=[{"type": "text", "text": "FILE_SAVED"}])
        screen.settle()
        screen.expect("Or answer in Vimacs")
        assert (work / "a.py").read_text("utf-8") == "x = 1\ny = 1\n"
        screen.type("y")
        screen.expect("So be it.")
        until(lambda: bool(ide.named("close_tab")))
    assert (work / "a.py").read_text("utf-8") == "x = 2\ny = 1\n"


def test_an_answer_in_the_terminal_closes_the_diff(
    tmp_path: Path, work: Path, ide: FakeIde
) -> None:
    with (
        serving(editing(work / "a.py")) as server,
        Terminal(tmp_path, server.url, "--ide") as terminal,
    ):
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect("Or answer in Vimacs")
        terminal.type("y\n")
        terminal.expect("So be it.")
        until(lambda: bool(ide.named("close_tab")))
        assert "notifications/cancelled" in ide.told
        terminal.expect("You> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert (work / "a.py").read_text("utf-8") == "x = 2\ny = 1\n"


def test_new_problems_of_a_changed_file_reach_the_model(tmp_path: Path, work: Path) -> None:
    def answer(name: str, _: Json) -> list[str] | None:
        problem = {"message": "x is 2", "severity": "Error", "range": {"start": {"line": 0}}}
        known = problem | {"message": "old one"}
        is_changed = "x = 2" in (work / "a.py").read_text("utf-8")
        found = [known, problem] if is_changed else [known]
        files = [{"uri": (work / "a.py").as_uri(), "diagnostics": found}]
        return [json.dumps(files)] if name == "getDiagnostics" else []

    off = json.dumps({"lspDetection": False, "permissions": {"defaultMode": "acceptEdits"}})
    with running_ide(answer) as ide, serving(editing(work / "a.py")) as server:
        ide.announce(tmp_path / "config", work)
        done = clew(tmp_path, server.url, "--ide", "-p", "go", "--settings", off)
    assert done.returncode == 0, done.stderr
    sent = json.dumps(server.requests[-1].body["messages"])
    assert "a.py:1:1: error: x is 2" in sent
    assert "old one" not in sent


def test_clew_connects_by_itself_only_to_an_editor_with_its_folder(
    tmp_path: Path, work: Path
) -> None:
    with running_ide() as ide, serving(HELLO) as server:
        port = {"CLAUDE_CODE_SSE_PORT": str(ide.port)}
        ide.announce(tmp_path / "config", tmp_path / "elsewhere")
        with OnScreen(tmp_path, server.url, "--ide", env=port) as screen:
            screen.expect("no editor has this folder open")
            screen.type("/ide\r")
            screen.expect("has another folder open")
            assert ide.headers == []
            screen.type("\r")
            screen.expect("Connected to Vimacs")
            screen.expect("⧉ Vimacs")
            screen.type("/ide off\r")
            screen.expect("Disconnected from Vimacs")
            screen.expect_gone("⧉ Vimacs")
        ide.announce(tmp_path / "config", work)
        ide.headers.clear()
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect("Sonnet")
            screen.type("/ide connect 1\r")
            screen.expect('No running editor uses port "1"')
            assert ide.headers == []
        with OnScreen(tmp_path, server.url, env=port) as screen:
            screen.expect("⧉ Vimacs")


def test_an_editor_that_refuses_the_token_or_has_ended_gets_nothing(
    tmp_path: Path, work: Path, ide: FakeIde
) -> None:
    file = ide.announce(tmp_path / "config", work)
    fields = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps(fields | {"authToken": "wrong-" * 4}), "utf-8")
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("Sonnet")
        screen.type(f"/ide connect {ide.port}\r")
        screen.expect("Can't connect to Vimacs")
        screen.expect("HTTP 401")
        file.write_text(json.dumps(fields | {"pid": 2**22 + 1}), "utf-8")
        screen.type("/ide\r")
        screen.expect("No running editor found")
        assert "wrong-" not in screen.text


def test_an_administrator_can_deny_the_connection(tmp_path: Path, work: Path, ide: FakeIde) -> None:
    denied = json.dumps({"deniedMcpServers": [{"serverName": "ide"}]})
    with (
        serving(HELLO) as server,
        OnScreen(tmp_path, server.url, "--ide", "--settings", denied) as screen,
    ):
        screen.expect("Vimacs: denied by deniedMcpServers")
    assert ide.headers == []


def test_commands_of_the_model_cannot_read_the_token(tmp_path: Path, ide: FakeIde) -> None:
    file = next((tmp_path / "config" / "ide").iterdir())
    plan = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Read", "input": {"file_path": str(file)}}]},
            {"content": [{"tool": "Bash", "input": {"command": f"cat {file}"}}]},
            {"text": "No.", "times": "always"},
        ],
    }
    with serving(plan) as server:
        clew(tmp_path, server.url, "-p", "go")
    assert TOKEN not in json.dumps([request.body for request in server.requests])
