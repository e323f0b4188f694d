"""Files and folders that a link replaces between the permission decision and the call."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fronts.headless.test_rules_hold import calls, results, settings, write
from tests.system.sandbox.walls import can

NOTEBOOK = json.dumps(
    {
        "cells": [{"cell_type": "code", "id": "a1", "source": "treasure", "metadata": {}}],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
)
PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c02"
    "0000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082"
)


def swapping(home: Path, tool: str, commands: str, **permissions: Any) -> None:
    """Settings with a hook that swaps files and then answers the permission prompt with yes.

    It runs after the decision, as a program that changes links all the time might.
    """
    answer = {"hookSpecificOutput": {"hookEventName": "PermissionRequest",
                                     "decision": {"behavior": "allow"}}}  # fmt: skip
    script = write(home / "swap.sh", f"{commands}\ncat <<'EOF'\n{json.dumps(answer)}\nEOF\n")
    hook = {"matcher": tool, "hooks": [{"type": "command", "command": f"sh {script}"}]}
    settings(home, {"hooks": {"PermissionRequest": [hook]}, "permissions": permissions})


def without_ripgrep(folder: Path) -> Path:
    """A folder for `PATH` in which clew finds no ripgrep and searches by itself."""
    folder.mkdir()
    for name in ("sh", "rm", "ln", "cat"):
        (folder / name).symlink_to(shutil.which(name) or name)
    return folder


@pytest.mark.parametrize("part", ["file", "folder"])
@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("Read", {}),
        ("Grep", {"pattern": "treasure", "output_mode": "content"}),
    ],
)
def test_a_link_that_takes_a_files_place_leads_no_tool_to_a_denied_file(
    tmp_path: Path, tool: str, more: dict[str, Any], part: str
) -> None:
    work = tmp_path / "work"
    write(work / "vault" / "note", "a treasure")
    write(work / "open" / "note", "plain")
    swap = {
        "file": "rm open/note; ln -s ../vault/note open/note",
        "folder": "rm -r open; ln -s vault open",
    }
    swapping(tmp_path, tool, swap[part], deny=["Read(vault/**)"], ask=["Read(open/**)"])
    name = "path" if tool == "Grep" else "file_path"
    (result,) = results(tmp_path, calls((tool, {name: "open/note", **more})))
    assert "a treasure" not in json.dumps(result["content"])
    assert (work / "open" / "note" if part == "file" else work / "open").is_symlink()


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("LS", {"path": "open"}),
        ("Read", {"file_path": "open"}),
        ("Glob", {"pattern": "*", "path": "open"}),
        ("Grep", {"pattern": ".", "path": "open"}),
        ("Grep", {"pattern": ".", "path": "open", "output_mode": "content"}),
        ("Grep", {"pattern": ".", "path": "open", "output_mode": "count"}),
    ],
)
@pytest.mark.parametrize("searcher", ["ripgrep", "own"])
def test_a_link_that_takes_a_folders_place_shows_no_file_of_another_one(
    tmp_path: Path, tool: str, given: dict[str, Any], searcher: str
) -> None:
    write(tmp_path / "outside" / "treasure", "treasure")
    write(tmp_path / "work" / "open" / "note", "plain")
    swapping(tmp_path, tool, "rm -r open; ln -s ../outside open", ask=["Read(open/**)"])
    environ = {} if searcher == "ripgrep" else {"PATH": str(without_ripgrep(tmp_path / "bin"))}
    (result,) = results(tmp_path, calls((tool, given)), environ=environ)
    assert "treasure" not in json.dumps(result["content"])


@pytest.mark.parametrize("name", ["open/new", "open/deep/er/new"])
@pytest.mark.parametrize("tool", ["Write", "Edit"])
def test_a_link_that_takes_a_folders_place_leads_no_write_out_of_it(
    tmp_path: Path, tool: str, name: str
) -> None:
    (tmp_path / "outside").mkdir()
    write(tmp_path / "work" / "open" / "note", "plain")
    swapping(tmp_path, tool, "rm -r open; ln -s ../outside open")
    text = {"content": "x"} if tool == "Write" else {"old_string": "", "new_string": "x"}
    (result,) = results(tmp_path, calls((tool, {"file_path": name, **text})))
    assert result["is_error"], result
    assert list((tmp_path / "outside").rglob("*")) == []


@pytest.mark.parametrize("tool", ["Write", "Edit", "MultiEdit", "NotebookEdit"])
def test_a_link_that_takes_a_files_place_leads_no_change_to_another_file(
    tmp_path: Path, tool: str
) -> None:
    """Both files were read, so nothing else prevents the change."""
    outside = write(tmp_path / "outside" / "note.ipynb", NOTEBOOK)
    write(tmp_path / "work" / "open" / "note.ipynb", NOTEBOOK)
    swapping(
        tmp_path, tool, "rm -r open; ln -s ../outside open", allow=[f"Read(/{tmp_path}/outside/**)"]
    )
    given: dict[str, dict[str, Any]] = {
        "Write": {"content": "x"},
        "Edit": {"old_string": "treasure", "new_string": "x"},
        "MultiEdit": {"edits": [{"old_string": "treasure", "new_string": "x"}]},
        "NotebookEdit": {"cell_id": "a1", "new_source": "x"},
    }
    name = "notebook_path" if tool == "NotebookEdit" else "file_path"
    plan = calls(
        ("Read", {"file_path": str(outside)}),
        ("Read", {"file_path": "open/note.ipynb"}),
        (tool, {name: "open/note.ipynb", **given[tool]}),
    )
    *read, result = results(tmp_path, plan)
    assert not any(one.get("is_error") for one in read)
    assert result["is_error"], result
    assert outside.read_text("utf-8") == NOTEBOOK


def test_a_picture_that_a_link_leads_to_is_not_shown_either(tmp_path: Path) -> None:
    work = tmp_path / "work"
    write(work / "open" / "a.png", "plain")
    write(work / "vault" / "a.png", "").write_bytes(PICTURE)
    swapping(
        tmp_path, "Read", "ln -sf ../vault/a.png open/a.png",
        deny=["Read(vault/**)"], ask=["Read(open/**)"],
    )  # fmt: skip
    (result,) = results(tmp_path, calls(("Read", {"file_path": "open/a.png"})))
    assert "image" not in json.dumps(result["content"])


def test_a_link_in_the_call_still_leads_to_the_file_that_permissions_saw(tmp_path: Path) -> None:
    work = tmp_path / "work"
    write(work / "first" / "note", "plain")
    write(work / "second" / "note", "treasure")
    (work / "link").symlink_to("first")
    swapping(tmp_path, "Read", "ln -sfn second link", ask=["Read(first/**)"])
    (result,) = results(tmp_path, calls(("Read", {"file_path": "link/note"})))
    assert result["content"] == "1\tplain"


@pytest.mark.parametrize("mode", ["content", "count", "files_with_matches"])
def test_a_search_that_a_link_leads_to_a_denied_file_cannot_read_it(
    tmp_path: Path, mode: str
) -> None:
    """Its ripgrep behaves as if a folder became a link after ripgrep had listed it."""
    if not can("landlock"):
        return
    write(tmp_path / "work" / "vault" / "note", "a treasure\n")
    write(tmp_path / "work" / "open" / "note", "plain\n")
    shown = {"content": "1:%s\\n", "count": "1\\n", "files_with_matches": ""}
    program = write(
        tmp_path / "bin" / "rg",
        "#!/bin/sh\nread -r text <vault/note || exit 1\n"
        f"printf 'open/note\\000{shown[mode]}' \"$text\"\n",
    )
    program.chmod(0o755)
    given = {"pattern": "treasure", "output_mode": mode}
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    (read,) = results(tmp_path, calls(("Grep", given)), environ=environ)
    assert "open/note" in json.dumps(read["content"])
    settings(tmp_path, {"permissions": {"deny": ["Read(vault/**)"]}})
    (result,) = results(tmp_path, calls(("Grep", given)), environ=environ)
    assert "open/note" not in json.dumps(result["content"])


def test_a_search_of_a_secret_folder_that_the_user_allows_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / ".aws" / "sso"
    write(folder / "note", "a treasure\n")
    swapping(tmp_path, "Grep", "true")
    given = {"pattern": "treasure", "path": str(folder), "output_mode": "content"}
    (result,) = results(tmp_path, calls(("Grep", given)))
    assert "a treasure" in json.dumps(result["content"])
