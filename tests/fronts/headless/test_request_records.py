"""Requirements about requests, displays and counts, checked with a session of another program."""

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import pytest

from clew.engine import Target, validate_body
from clew.testing.server import serving
from tests.agent.tools.pictures import png
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.test_told_records import FINE, SESSION, entry, left, said, uid
from tests.requirements import requirement

Json = dict[str, Any]
INTERRUPTED = "[Request interrupted by user]"


def answer(number: int, *content: Json) -> Json:
    message = {
        "id": "msg_one", "type": "message", "role": "assistant", "model": "m",
        "content": list(content), "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    return entry("assistant", number, message=message, requestId="req_one")


def call(name: str) -> Json:
    return {"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": f"{name}.txt"}}


def result(name: str, content: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": content}


def hook(number: int, event: str, name: str) -> Json:
    words = f"{event} of {name}"
    about = {"type": "hook_success", "hookEvent": event, "hookName": event, "toolUseID": name}
    return entry("attachment", number, attachment=about, rendered=[{"content": words}])


def command(number: int, words: str) -> Json:
    return entry("system", number, subtype="local_command", content=words, level="info")


def history(picture: Json) -> list[Json]:
    return [
        said("user", 1, "ALPHA"),
        command(2, "<command-name>/cost</command-name>"),
        command(3, "<local-command-stdout>COSTLY</local-command-stdout>"),
        said("user", 4, "BETA"),
        # The second side's blocks on the first side.
        answer(5, {"type": "text", "text": "I look."}, picture, result("none", "STRAY")),
        answer(6, call("one")),
        answer(7, call("two")),
        # What belongs to the calls, in no order.
        hook(8, "PostToolUse", "two"),
        said("user", 9, [result("two", [picture, {"type": "text", "text": "SECOND"}])]),
        hook(10, "PreToolUse", "one"),
        hook(11, "Stop", "one"),
        said("user", 12, [result("one", "FIRST")]),
        hook(13, "PostToolUse", "one"),
        said("user", 14, [call("never"), picture, {"type": "text", "text": "GAMMA"}]),
        answer(15, {"type": "text", "text": ""}),
        said("user", 16, INTERRUPTED),
        said("user", 17, "VIRTUAL", isVirtual=True),
        entry("of_tomorrow", 18, depth={"x": [1]}),
        entry("system", 19, subtype="of_tomorrow", content="NEW", depth=3),
    ]


@dataclass
class Told:
    body: Json
    before: list[str]
    after: list[str]
    shown: str
    stats: Json
    checked: str

    @property
    def messages(self) -> list[Json]:
        return [m for m in self.body["messages"] if m["role"] != "system"]

    def blocks(self, role: str, kind: str) -> list[Json]:
        return [b for m in self.messages if m["role"] == role for b in m["content"]
            if b["type"] == kind]  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    home = tmp_path_factory.mktemp("told")
    data = b64encode(png(40, 30)).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    picture = {"type": "image", "source": source}
    path = left(home, *history(picture))
    before = path.read_text("utf-8").splitlines()
    with serving(FINE) as server:
        done = clew(home, server.url, "-p", INTERRUPTED, "--resume", SESSION)
        assert done.stdout == "Fine.\n", done.stderr
        body = server.requests[-1].body
        run = [clew(home, server.url, "sessions", *words).stdout for words in (
            ("export", SESSION, "--format", "markdown"), ("stats", "--json"), ("check", SESSION),
        )]  # fmt: skip
    assert transcripts(home) == [path]
    after = path.read_text("utf-8").splitlines()
    return Told(body, before, after, run[0], json.loads(run[1]), run[2])


@requirement("R030", "R031", "R032", "R033", "R034")
def test_each_side_of_a_request_has_its_own_blocks(told: Told) -> None:
    assert [b["id"] for b in told.blocks("assistant", "tool_use")] == ["one", "two"]
    assert told.blocks("user", "tool_use") == []
    assert [b["tool_use_id"] for b in told.blocks("user", "tool_result")] == ["one", "two"]
    assert told.blocks("assistant", "tool_result") == told.blocks("assistant", "image") == []
    assert len(told.blocks("user", "image")) == 1
    assert told.blocks("assistant", "text")
    assert told.blocks("user", "text")
    # Nothing is lost: what a side may not say is there as text.
    assert "STRAY" in json.dumps(told.messages[1])
    assert "Read" in json.dumps(told.blocks("user", "text"))


@requirement("R094", "R095", "R096", "R099", "C7", "W21")
def test_a_request_of_any_history_keeps_the_rules_of_the_service(told: Told) -> None:
    assert validate_body(told.body, Target(system_messages=True)) == []
    assert [m["role"] for m in told.messages] == ["user", "assistant", "user"]
    first, _, last = (m["content"] for m in told.messages)
    words = [b["text"] for b in first]
    assert words == [
        "ALPHA",
        "<command-name>/cost</command-name>",
        "<local-command-stdout>COSTLY</local-command-stdout>",
        "BETA",
    ]
    assert [b["type"] for b in last[:2]] == ["tool_result"] * 2
    assert "VIRTUAL" not in json.dumps(told.body)


@requirement("R102", "W24")
def test_a_call_is_shown_with_its_hooks_and_its_result_whatever_came_first(told: Told) -> None:
    pieces = ("one.txt", "PreToolUse of one", "FIRST", "PostToolUse of one", "two.txt", "SECOND",
        "PostToolUse of two", "Stop of one", "GAMMA")  # fmt: skip
    places = [told.shown.index(piece) for piece in pieces]
    assert places == sorted(places)
    assert all(told.shown.count(piece) == 1 for piece in pieces)


def test_what_a_program_wrote_is_shown_as_no_prompt(told: Told) -> None:
    # Once as it was left there, and once as the user typed it.
    notice = f"<details><summary>Notice</summary>\n\n```\n{INTERRUPTED}\n```"
    assert told.shown.count(notice) == 1
    assert told.shown.count(INTERRUPTED) == 2


@requirement("R085", "W22")
def test_counts_of_prompts_leave_out_what_programs_wrote(told: Told) -> None:
    # ALPHA, BETA, GAMMA and the words that the user typed, which are those of a program.
    assert told.stats["prompts"] == 4
    # Each call counts, also if the lines of one answer have several of a tool.
    assert told.stats["tools"] == [{"name": "Read", "calls": 2}]


@requirement("R015", "C1", "R003")
def test_what_is_unknown_stays_in_the_file_as_it_was(told: Told) -> None:
    assert told.after[: len(told.before)] == told.before
    added = [json.loads(line) for line in told.after[len(told.before) :]]
    prompt = next(line for line in added if line["type"] == "user")
    assert prompt["parentUuid"] == uid(19)
    assert "of_tomorrow" in told.checked


@requirement("R086")
def test_every_line_has_an_id_that_is_derived_from_no_other(told: Told) -> None:
    ids = [line["uuid"] for line in map(json.loads, told.after) if "uuid" in line]
    assert len(set(ids)) == len(ids)
    added = ids[len(told.before) :]
    # Older programs keep these characters of the first part's ID.
    assert len({uuid[:24] for uuid in added}) == len(added) > 3
