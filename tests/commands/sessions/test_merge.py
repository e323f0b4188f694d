"""Two continuations of one session become one session, with a list of conflicts."""

import json
from pathlib import Path
from typing import Any

from clew.core.normalize.for_api import for_api
from clew.core.normalize.target import Target
from clew.record.transcript.load import load
from clew.testing.server import serving
from tests.commands.sessions.place import Place
from tests.fronts.headless.clew_process import clew
from tests.record.transcript.build import SESSION, result, said, talk, user

OTHER = "1b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6b"


def edit(name: str, path: str) -> dict[str, Any]:
    value = {"file_path": path, "old_string": "a", "new_string": "b"}
    return {"type": "tool_use", "id": f"toolu_{name}", "name": "Edit", "input": value}


def continue_with(name: str, *paths: str) -> list[dict[str, Any]]:
    """A prompt after the common part, an edit of each file, and a last response."""
    lines = [user(f"{name}p", "a2", f"prompt of {name}")]
    parent = f"{name}p"
    for number, path in enumerate(paths):
        call, answer = f"{name}c{number}", f"{name}r{number}"
        lines += [said(call, parent, edit(call, path)), result(answer, call, call)]
        parent = answer
    return [*lines, said(f"{name}e", parent, {"type": "text", "text": f"end of {name}"})]


def test_two_continuations_become_one_session(place: Place, tmp_path: Path) -> None:
    place.write([*talk(2), *continue_with("x", "/w/one", "/w/both")])
    place.write([*talk(2), *continue_with("y", "/w/both", "/w/two")], name=OTHER)
    merged = place.json("merge", SESSION, OTHER, code=1)
    assert merged["conflicts"] == [{"kind": "file", "path": "/w/both"}]
    assert merged["changedByB"] == ["/w/both", "/w/two"]
    assert (merged["shared"], merged["onlyA"], merged["onlyB"]) == (4, 6, 6)
    messages = load(Path(merged["path"])).messages
    told = json.dumps(messages)
    assert "prompt of x" in told
    assert "prompt of y" not in told
    note = messages[-1]["message"]["content"]
    assert "/w/both" in note
    assert "end of y" in note
    for_api(messages, Target())
    place.clew("check", merged["sessionId"])
    tree = place.clew("tree", merged["sessionId"])
    assert "prompt of x" in tree
    assert "prompt of y" in tree
    assert "(merged)" in place.clew("list")
    (tmp_path / "home").mkdir(exist_ok=True)
    with serving({"scenario": 1, "answers": [{"text": "Going on."}]}, strict=True) as server:
        place.home = tmp_path / "home"
        done = clew(tmp_path, server.url, "-p", "go on", "--resume", str(merged["path"]))
        assert done.stdout == "Going on.\n", done.stderr
        assert "Both continuations changed" in json.dumps(server.requests[0].body)


def test_a_model_summarizes_the_branch_for_the_next_request(place: Place, tmp_path: Path) -> None:
    place.write([*talk(2), *continue_with("x")])
    place.write([*talk(2), *continue_with("y", "/w/two")], name=OTHER)
    words = ("sessions", "merge", SESSION, OTHER, "--summarize")
    home = {"CLEW_CONFIG_DIR": str(place.home)}
    with serving({"scenario": 1, "answers": [{"text": "Two was edited."}]}, strict=True) as server:
        done = clew(tmp_path, server.url, *words, environ=home)
        assert done.returncode == 0, done.stderr
        asked = json.dumps(server.requests[0].body)
    assert "proposed summary of the branch" in done.stdout
    assert "prompt of y" in asked
    assert "/w/two" in asked
    assert "prompt of x" not in asked
    merged = done.stdout.partition(":")[0]
    note = load(place.sessions / f"{merged}.jsonl").messages[-1]["message"]["content"]
    assert "summarized it as follows:\nTwo was edited." in note
    assert "end of y" not in note
    before = sorted(place.sessions.glob("*.jsonl"))
    refusal = {"status": 400, "error": {"type": "invalid_request_error", "message": "no"}}
    with serving({"scenario": 1, "answers": [refusal]}) as server:
        done = clew(tmp_path, server.url, *words, environ=home)
    assert done.returncode == 2
    assert "no summary: " in done.stderr
    assert "nothing was merged" in done.stderr
    assert sorted(place.sessions.glob("*.jsonl")) == before


def test_what_can_not_be_merged_is_refused_and_changes_nothing(place: Place) -> None:
    place.write([*talk(2), *continue_with("x")])
    place.write(talk(2), name=OTHER)
    before = sorted(place.sessions.glob("*.jsonl"))
    assert "has all messages of" in place.clew("merge", SESSION, OTHER, code=2)
    apart = "2c5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6b"
    place.write([user("z1", None, "alone"), said("z2", "z1")], name=apart)
    assert "no message in common" in place.clew("merge", SESSION, apart, code=2)
    assert sorted(place.sessions.glob("*.jsonl")) == sorted(
        [*before, place.sessions / f"{apart}.jsonl"]
    )
