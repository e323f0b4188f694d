"""What a host program, and a user in line mode, see of a compaction."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import get_session_messages

from clew.record.exchange.export import LEFT_OUT
from clew.testing.server import serving
from tests.agent.compaction.test_in_headless import PARAGRAPH, SAID, coats, grown, painter
from tests.agent.compaction.window import ARGS, Window, answered, text_of
from tests.fronts.headless.clew_process import transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.requirements import requirement

Json = dict[str, Any]


def told(frame: Json) -> str:
    if frame["type"] == "system" and frame["subtype"] == "status":
        return f"status {frame['status']} {frame.get('compact_result', '')}".strip()
    return str(frame.get("subtype") or frame["type"])


def test_a_host_orders_a_summary(tmp_path: Path) -> None:
    window = Window(painter)
    with serving(window, strict=True) as server, Hosted(tmp_path, server.url, *ARGS) as host:
        for number in range(3):
            host.say(f"Paint part {number}. " + PARAGRAPH)
            host.result()
        begin = len(host.frames)
        host.say("/compact")
        result = host.result()
        usage = host.ask("get_context_usage")["response"]
        assert host.end() == 0
    assert [told(f) for f in host.frames[begin:] if f["type"] != "control_response"] == [
        "status compacting",
        "status None success",
        "init",
        "compact_boundary",
        "user",
        "success",
    ]
    assert result["num_turns"] == 0
    boundary = next(f for f in host.frames if f.get("subtype") == "compact_boundary")
    assert boundary["compact_metadata"]["trigger"] == "manual"
    assert boundary["compact_metadata"]["pre_tokens"] > boundary["compact_metadata"]["post_tokens"]
    summary = next(f for f in host.frames if f["type"] == "user" and SAID in json.dumps(f))
    assert summary["isSynthetic"] is True
    assert usage["isAutoCompactEnabled"] is True
    assert usage["autoCompactThreshold"] < 24_000


def test_a_host_is_told_of_a_summary_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    window = Window(coats(25))
    with serving(window, strict=True) as server, Hosted(tmp_path, server.url, *ARGS) as host:
        host.say("Paint the lighthouse, coat by coat.")
        result = host.result()
        assert host.end() == 0
    assert result["result"] == "All painted."
    assert not window.refused
    boundaries = [f for f in host.frames if f.get("subtype") == "compact_boundary"]
    assert boundaries
    assert boundaries[0]["compact_metadata"]["trigger"] == "auto"
    # What the person asked stands word for word behind the summary.
    assert "Paint the lighthouse, coat by coat." in text_of(window.asked[-1])
    uuids = [f["uuid"] for f in host.frames if f["type"] in ("assistant", "user")]
    assert len(uuids) == len(set(uuids))


def test_a_user_summarises_line_by_line_and_takes_it_back(tmp_path: Path) -> None:
    window = Window(painter)
    with serving(window, strict=True) as server, Terminal(tmp_path, server.url, *ARGS) as terminal:
        terminal.expect("> ")
        terminal.type("Paint it all.\r")
        terminal.expect("I paint.")
        terminal.expect("> ")
        terminal.type("/compact the north side\r")
        terminal.expect("Compacted:")
        terminal.expect("> ")
        terminal.type("And now?\r")
        terminal.expect("I paint.")
        terminal.expect("> ")
        terminal.type("/compact --undo\r")
        terminal.expect("compaction was undone")
        terminal.expect("> ")
        terminal.type("Go on.\r")
        terminal.expect("I paint.")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert SAID in text_of(window.asked[1])
    assert SAID not in text_of(window.asked[2])
    assert "And now?" in text_of(window.asked[2])


def test_one_key_of_the_screen_takes_a_summary_back(tmp_path: Path) -> None:
    window = Window(painter)
    with serving(window, strict=True) as server, OnScreen(tmp_path, server.url, *ARGS) as screen:
        screen.expect("default")
        screen.type("Paint it all.\r")
        screen.expect("context left")
        screen.type("/compact\r")
        screen.expect("Compacted:")
        screen.type("\x1bu")
        screen.expect("compaction was undone")
        screen.type("Go on.\r")
        until(lambda: "Go on." in text_of(window.asked[-1]))
    assert "Paint it all." in text_of(window.asked[-1])


@requirement("C15", "W30")
@pytest.mark.parametrize(("front", "second"), [(Terminal, "2\r"), (OnScreen, "\x1b[B\r")])
def test_a_large_old_session_continues_as_it_is_or_from_a_summary(
    front: type[Terminal | OnScreen], second: str, tmp_path: Path
) -> None:
    """Without a user, it is resumed unchanged.

    A user is asked, and no request precedes the answer.
    """
    window = Window(painter)
    with serving(window, strict=True) as server:
        grown(tmp_path, server.url, 5)
        (path,) = transcripts(tmp_path)
        old = re.sub(r'"timestamp":"20\d\d', '"timestamp":"2020', path.read_text("utf-8"))
        path.write_text(old, "utf-8")
        asked = len(window.asked)
        with front(tmp_path, server.url, "--resume", path.stem, *ARGS) as terminal:
            terminal.expect("Compact first")
            assert (len(window.asked), window.summaries) == (asked, [])
            terminal.type(second)
            terminal.expect("Compacted:")
            if front is Terminal:
                terminal.expect("> ")  # what is typed before it would be said to what runs
            terminal.type("Go on then.\r")
            terminal.expect("the paint.")
            until(lambda: len(window.asked) > asked)
    assert len(window.summaries) == 1
    assert SAID in text_of(window.asked[-1])
    assert "Paint it." not in text_of(window.asked[-1])


def test_a_summary_that_is_ordered_during_a_turn_waits_for_its_end(tmp_path: Path) -> None:
    def part(body: Json) -> Json:
        if "tool_result" in text_of(body):
            return answered("I slept.", body)
        call = {"tool": "Bash", "input": {"command": "sleep 1"}}
        return answered([call], body)

    window = Window(part)
    with serving(window, strict=True) as server, Hosted(tmp_path, server.url, *ARGS) as host:
        host.say("Sleep. " + "The sea is calm. " * 80)
        host.until(lambda f: f["type"] == "assistant")
        host.say("/compact")
        assert host.result()["result"] == "I slept."
        assert "tokens before" in host.result()["result"]
        assert host.end() == 0
    assert len(window.summaries) == 1
    assert "/compact" not in text_of(window.asked[-1])


def test_the_published_reader_shows_the_summary_and_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = Window(painter)
    with serving(window, strict=True) as server, Hosted(tmp_path, server.url, *ARGS) as host:
        for words in ("Paint it. " + PARAGRAPH, "/compact", "And the south."):
            host.say(words)
            host.result()
        assert host.end() == 0
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    (path,) = transcripts(tmp_path)
    seen = get_session_messages(path.stem)
    words = json.dumps([m.message for m in seen])
    assert [m.type for m in seen] == ["user", "user", "assistant"]
    assert SAID in words
    assert "And the south." in words
    assert "Paint it." not in words


def test_an_export_in_the_session_says_what_it_leaves_out_and_brings_it(tmp_path: Path) -> None:
    def exported(host: Hosted, words: str) -> str:
        host.say(f"/export {words}")
        return str(host.result()["result"])

    window = Window(painter)
    with serving(window, strict=True) as server, Hosted(tmp_path, server.url, *ARGS) as host:
        host.say("Paint it. " + PARAGRAPH)
        host.result()
        assert "omitted" not in exported(host, "early.md")
        host.say("/compact")
        host.result()
        left_out = LEFT_OUT
        assert left_out in exported(host, "late.md")
        assert "omitted" not in exported(host, "all.md --all")
        assert "omitted" not in exported(host, "lines.jsonl")
        assert host.end() == 0
    work = tmp_path / "work"
    # It is the title, too.
    assert (work / "late.md").read_text("utf-8").count("Paint it.") == 1
    assert (work / "all.md").read_text("utf-8").count("Paint it.") == 2
