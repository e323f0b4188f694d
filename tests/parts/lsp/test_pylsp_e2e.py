"""The LSP tool with the published python-lsp-server, found on the PATH, on a small project."""

import json
import os
import sys
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, command, environment
from tests.parts.lsp.test_servers import results

pytestmark = pytest.mark.e2e
BIN = str(Path(sys.executable).parent)


def run(home: Path, url: str, *args: str) -> None:
    import subprocess

    path = os.pathsep.join((BIN, os.environ.get("PATH", os.defpath)))
    done = subprocess.run(
        command(*args),
        cwd=home / "work",
        env=environment(home, url) | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_project_in_python_is_asked_about_and_watched(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_text('def paint(color):\n    """Paints."""\n    return color\n', "utf-8")
    (work / "b.py").write_text("from a import paint\n\npaint(1)\n", "utf-8")

    def ask(operation: str, **more: object) -> dict[str, object]:
        place = {"file_path": "b.py", "line": 3, "symbol": "paint"}
        return {"tool": "LSP", "input": {"operation": operation, **place, **more}}

    edit = {"file_path": "a.py", "old_string": "return color", "new_string": "return shade"}
    scenario = {
        "scenario": 1,
        "answers": [
            {
                "content": [
                    ask("goToDefinition"),
                    ask("findReferences"),
                    ask("hover"),
                    ask("documentSymbol", file_path="a.py"),
                    ask("diagnostics", file_path="a.py"),
                    {"tool": "Read", "input": {"file_path": "a.py"}},
                ]
            },
            {"content": [{"tool": "Edit", "input": edit}]},
            {"text": "done"},
        ],
    }
    with serving(scenario, strict=True) as server:
        clew(tmp_path, server.url, "config", "trust")
        run(tmp_path, server.url, "-p", "look and break", "--permission-mode", "acceptEdits")
        asked = server.requests[1].body["messages"][-1]["content"]
        said = [block["content"] for block in asked if block["type"] == "tool_result"]
        assert said[0] == "a.py:1:5: def paint(color):"
        assert "b.py:3:1: paint(1)" in said[1]
        assert "Paints." in said[2]
        assert said[3] == "1: function paint"
        assert said[4] == "The language server returned no results."
        assert "undefined name 'shade'" in json.dumps(server.requests[-1].body["messages"][-1])
        assert len(results(server)) == 1
