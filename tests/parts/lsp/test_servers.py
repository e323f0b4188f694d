"""Language servers in a session, with the real process: the tool, and diagnostics after edits."""

import json
import sys
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew

Json = dict[str, Any]
PROGRAM = str(Path(__file__).with_name("server_program.py"))
SOURCE = "é = 1; paint = BAD\nother = paint\n"


def settings(log: Path, mode: str = "honest", **more: Any) -> str:
    entry = {
        "command": sys.executable,
        "args": ["-I", "-S", PROGRAM, mode, str(log)],
        "extensionToLanguage": {".paint": "paint"},
        "env": {"SEEN": "by the server"},
        "settings": {"paint": {"color": "red"}},
        **more,
    }
    return json.dumps({"lspServers": {"painter": entry}})


def asking(*calls: Json) -> Json:
    content = [{"tool": "LSP", "input": {"file_path": "a.paint", **call}} for call in calls]
    return {"scenario": 1, "answers": [{"content": content}, {"text": "done"}]}


def results(server: Any) -> list[str]:
    """Return the results that the model received, in order."""
    last = server.requests[-1].body["messages"][-1]["content"]
    return [block["content"] for block in last if block["type"] == "tool_result"]


def world(home: Path) -> Path:
    work = home / "work"
    work.mkdir()
    (work / "a.paint").write_text(SOURCE, encoding="utf-8")
    return home / "log"


def test_the_model_asks_a_language_server(tmp_path: Path) -> None:
    log = world(tmp_path)
    scenario = asking(
        {"operation": "goToDefinition", "line": 2, "symbol": "paint"},
        {"operation": "findReferences", "line": 1, "character": 8},
        {"operation": "hover", "line": 1, "symbol": "paint"},
        {"operation": "documentSymbol"},
        {"operation": "workspaceSymbol", "query": "pai"},
        {"operation": "incomingCalls", "line": 1, "symbol": "paint"},
        {"operation": "diagnostics"},
    )
    with serving(scenario, strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "ask", "--settings", settings(log, "asks"))
        assert (ran.returncode, ran.stdout) == (0, "done\n")
        assert results(server) == [
            "a.paint:1:8: é = 1; paint = BAD",
            "a.paint:1:8: é = 1; paint = BAD\na.paint:2:9: other = paint\n/elsewhere/x.py:7:1",
            "**paint** a thing",
            "1: class Outer\n  2: method inner",
            "a.paint:1: function pai\na.paint:2: function pai",
            "a.paint:1: function paint",
            "a.paint:1:16: error: BAD is wrong",
        ]
    told = log.read_text("utf-8").splitlines()
    assert told[0] == "started by the server"
    assert json.dumps(["red", {"paint": {"color": "red"}}]) in told
    assert told.count("open paint") == 1
    # Columns are the server's, in units of two bytes.
    assert "definition at 1:8" in told
    assert told[-2:] == ["shutdown", "exit"]


def test_what_cannot_be_asked_is_told_in_words(tmp_path: Path) -> None:
    log = world(tmp_path)
    scenario = asking(
        {"operation": "hover"},
        {"operation": "hover", "line": 99, "character": 1},
        {"operation": "hover", "line": 1, "symbol": "absent"},
        {"operation": "hover", "file_path": "b.other", "line": 1, "character": 1},
        {"operation": "hover", "file_path": "gone.paint", "line": 1, "character": 1},
    )
    with serving(scenario, strict=True) as server:
        clew(tmp_path, server.url, "-p", "ask", "--settings", settings(log))
        no_place, no_line, absent, no_server, gone = results(server)
    assert "Give the line" in no_place
    assert "has 3 lines" in no_line
    assert "'absent' not found in line 1" in absent
    assert "No language server for b.other; available for: .paint" in no_server
    assert "No such file" in gone


def test_a_server_starts_with_the_first_question_and_not_before(tmp_path: Path) -> None:
    log = world(tmp_path)
    with serving({"scenario": 1, "answers": [{"text": "hi"}]}, strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "hi", "--settings", settings(log)).returncode == 0
    assert not log.exists()


def editing(new: str) -> Json:
    edit = {"file_path": "a.paint", "old_string": "1", "new_string": new}
    return {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Read", "input": {"file_path": "a.paint"}}]},
            {"content": [{"tool": "LSP", "input": {"file_path": "a.paint", "operation": "diagnostics"}}]},
            {"content": [{"tool": "Edit", "input": edit}]},
            {"text": "done"},
        ],
    }  # fmt: skip


def edited(home: Path, new: str, mode: str = "honest") -> str:
    """Return everything that the model was last sent after an edit."""
    log = world(home)
    with serving(editing(new), strict=True) as server:
        mode_of = ("--permission-mode", "acceptEdits")
        ran = clew(home, server.url, "-p", "edit", "--settings", settings(log, mode), *mode_of)
        assert ran.returncode == 0, ran.stderr
        return json.dumps(server.requests[-1].body["messages"][-1], ensure_ascii=False)


def test_what_an_edit_broke_is_told_with_the_next_request(tmp_path: Path) -> None:
    told = edited(tmp_path, "2 ODD")
    assert "a.paint:1:7: warning: ODD is wrong" in told
    # It was wrong before, and the model was told then.
    assert "BAD is wrong" not in told


def test_a_server_that_must_be_asked_is_asked(tmp_path: Path) -> None:
    assert "warning: ODD is wrong" in edited(tmp_path, "2 ODD", "pull")


def test_an_edit_that_breaks_nothing_is_followed_by_nothing(tmp_path: Path) -> None:
    assert "Language servers report" not in edited(tmp_path, "2")


def test_a_server_that_dies_or_says_nothing_holds_nothing_up_for_long(tmp_path: Path) -> None:
    for mode, words in (
        ("dies", "the server ended"),
        ("silent", "no response to initialize in time"),
    ):
        home = tmp_path / mode
        home.mkdir()
        log = world(home)
        given = settings(log, mode, startupTimeout=300)
        scenario = asking({"operation": "documentSymbol"}, {"operation": "documentSymbol"})
        with serving(scenario, strict=True) as server:
            ran = clew(home, server.url, "-p", "ask", "--settings", given)
            assert ran.returncode == 0
            assert words in results(server)[0]


def test_a_program_that_is_not_there_is_said_so_and_a_bad_entry_too(tmp_path: Path) -> None:
    log = world(tmp_path)
    with serving(asking({"operation": "documentSymbol"}), strict=True) as server:
        given = settings(log, command="no-such-program")
        clew(tmp_path, server.url, "-p", "ask", "--settings", given)
        assert "cannot be started" in results(server)[0]
        bad = json.dumps({"lspServers": {"painter": {"command": 3}}})
        ran = clew(tmp_path, server.url, "-p", "ask", "--settings", bad)
        assert "language server painter: command" in ran.stderr


def test_a_folder_nobody_trusts_starts_no_server(tmp_path: Path) -> None:
    log = world(tmp_path)
    folder = tmp_path / "work" / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text(settings(log), encoding="utf-8")
    with serving(asking({"operation": "documentSymbol"}), strict=True) as server:
        clew(tmp_path, server.url, "-p", "ask")
        assert "Unknown tool LSP" in results(server)[0]
        clew(tmp_path, server.url, "config", "trust")
    with serving(asking({"operation": "documentSymbol"}), strict=True) as server:
        clew(tmp_path, server.url, "-p", "ask")
        assert "class Outer" in results(server)[0]
