"""Calls that would fail whatever the user answers: the user is not asked about them."""

import json
from pathlib import Path
from typing import Any, TypeAlias

from clew.agent.tools.files import NOT_READ
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.headless.host_process import Hosted

Json: TypeAlias = dict[str, Any]


def calls(*inputs: tuple[str, Json]) -> Json:
    """Return answers with one call each, and then a text."""
    answers: list[Json] = [{"content": [{"tool": n, "input": given}]} for n, given in inputs]
    return {"scenario": 1, "answers": [*answers, {"text": "Done.", "times": "always"}]}


def edit(name: str, old: str, new: str = "new") -> tuple[str, Json]:
    return "Edit", {"file_path": name, "old_string": old, "new_string": new}


def project(home: Path) -> Path:
    work = home / "work"
    work.mkdir()
    for name in ("a.txt", "b.txt", "n.ipynb"):
        (work / name).write_text(f"one\ntwo\n{name}\n", "utf-8")
    (home / "outside.txt").write_text("secret\n", "utf-8")
    return work


def results(requests: Any) -> list[str]:
    """Return the result of each call, in order."""
    return [
        str(block["content"])
        for message in requests[-1].body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def test_what_must_fail_is_told_to_the_model_and_asked_of_nobody(tmp_path: Path) -> None:
    work = project(tmp_path)
    outside = str(tmp_path / "outside.txt")
    steps = [{"old_string": "one", "new_string": "1"}, {"old_string": "nine", "new_string": "9"}]
    plan = calls(
        ("Read", {"file_path": "a.txt"}),
        edit("a.txt", "three"),
        ("MultiEdit", {"file_path": "a.txt", "edits": steps}),
        edit("b.txt", "one"),
        ("Write", {"file_path": "b.txt", "content": "x"}),
        ("NotebookEdit", {"notebook_path": "n.ipynb", "cell_id": "c", "new_source": "x"}),
        edit("gone.txt", "one"),
        # What may not be looked at unasked is asked about, whatever would become of it.
        edit(outside, "nothing"),
        edit("a.txt", "one"),
    )
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--output-format", "json")
        told = results(server.requests)[1:]
    said = [
        "old_string not found",
        "Edit 2 of 2: old_string not found",
        NOT_READ,
        NOT_READ,
        NOT_READ,
        "File not found",
        "Reason for asking",
        "Reason for asking",
    ]
    assert [words in result for words, result in zip(said, told, strict=True)] == [True] * 8, told
    denied = json.loads(done.stdout)["permission_denials"]
    assert [one["tool_input"]["file_path"] for one in denied] == [outside, str(work / "a.txt")]
    assert (work / "a.txt").read_text("utf-8") == "one\ntwo\na.txt\n"


def test_a_host_is_asked_about_the_call_that_can_be_done_alone(tmp_path: Path) -> None:
    work = project(tmp_path)
    plan = calls(("Read", {"file_path": "a.txt"}), edit("a.txt", "three"), edit("a.txt", "two"))
    args = ("--permission-prompt-tool", "stdio")
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url, *args) as host:
        host.say("go")
        asked = host.until(lambda f: f["type"] == "control_request")
        assert asked["request"]["input"]["old_string"] == "two"
        granted = {"behavior": "allow", "updatedInput": asked["request"]["input"]}
        response = {"subtype": "success", "request_id": asked["request_id"], "response": granted}
        host.send(type="control_response", response=response)
        assert host.result()["permission_denials"] == []
        assert host.end() == 0
    assert (work / "a.txt").read_text("utf-8") == "one\nnew\na.txt\n"


def test_what_a_rule_denies_is_denied_and_nothing_is_told_of_the_file(tmp_path: Path) -> None:
    project(tmp_path)
    plan = calls(("Read", {"file_path": "a.txt"}), edit("a.txt", "three"), edit("b.txt", "one"))
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", "--disallowedTools", "Edit(a.txt),Read(b.txt)")
        told = results(server.requests)[1:]
    assert all("denied by" in words for words in told)
    assert not any("old_string" in words or "was not read" in words for words in told)


def test_an_edit_after_another_is_held_against_what_that_one_left(tmp_path: Path) -> None:
    work = project(tmp_path)
    both = [edit("a.txt", "two", "2"), edit("a.txt", "2", "zwei")]
    plan: Json = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Read", "input": {"file_path": "a.txt"}}]},
            {"content": [{"tool": name, "input": given} for name, given in both]},
            {"text": "Done."},
        ],
    }
    args = ("--permission-prompt-tool", "stdio")
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url, *args) as host:
        host.say("go")
        for _ in both:
            asked = host.until(lambda f: f["type"] == "control_request")
            granted = {"behavior": "allow", "updatedInput": asked["request"]["input"]}
            response = {"subtype": "success", "request_id": asked["request_id"], "response": granted}  # fmt: skip
            host.send(type="control_response", response=response)
        assert host.result()["permission_denials"] == []
        assert host.end() == 0
    assert (work / "a.txt").read_text("utf-8") == "one\nzwei\na.txt\n"
