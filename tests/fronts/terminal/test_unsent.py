"""Messages that wait for a turn survive a crash: the next run of the session offers them again."""

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.core.json_object import Json
from clew.fronts.terminal.prompt import as_submitted
from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless.clew_process import transcripts, until
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.fronts.terminal.test_linear import NEVER_ENDS
from tests.fronts.terminal.test_prompt import WAITS
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement

OFFERED = "Not sent before clew exited"


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with serving(NEVER_ENDS) as server:
        yield server


def read_entries(home: Path) -> list[Json]:
    lines = transcripts(home)[0].read_bytes().split(b"\n")
    return [json.loads(line) for line in lines[:-1]]


def said(server: LoopbackServer) -> str:
    return str(server.requests[-1].body["messages"])


def waits(screen: OnScreen, *messages: str) -> None:
    """Begin a turn that never ends, and send it messages: to the turn, or with a tab, after it."""
    screen.expect(READY)
    screen.type("go\r")
    screen.expect("A whole thought.")
    for message in messages:
        screen.type(message)
        screen.expect(f": {message.strip()}")


def killed(screen: OnScreen) -> None:
    screen.child.kill()
    screen.child.wait()


@requirement("R285")
def test_waiting_messages_are_offered_after_a_crash_until_something_is_sent(
    tmp_path: Path, server: LoopbackServer
) -> None:
    with OnScreen(tmp_path, server.url) as screen:
        waits(screen, "be slow\r", "and then this\t", "not this\t")
        screen.type("\x1b[A")
        screen.expect("> not this")
        until(lambda: any(e.get("operation") == "dequeue" for e in read_entries(tmp_path)))
        killed(screen)
    for _ in range(2):
        with OnScreen(tmp_path, server.url, "--continue") as screen:
            screen.expect(OFFERED)
            screen.expect("> be slow\n  and then this\n")
            assert "not this" not in screen.text
            killed(screen)
    with OnScreen(tmp_path, server.url, "--continue") as screen:
        screen.expect(OFFERED)
        screen.type(" too\r")
        screen.expect("Here again.")
        assert "be slow\\nand then this too" in said(server)
        screen.expect_rest()
        screen.type("\x04")
        assert screen.end() == 0
    with OnScreen(tmp_path, server.url, "--continue") as screen:
        screen.expect("Here again.")
        screen.expect_rest()
        assert OFFERED not in screen.text


@requirement("R285")
def test_messages_that_a_turn_received_or_that_began_one_wait_no_longer(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work" / "pipe")
    with (
        serving(WAITS, strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash(head:*)") as screen,
    ):
        screen.expect(READY)
        screen.type("wait\r")
        screen.expect("head -1 pipe")
        for message in ("be slow\r", "and then this\t"):
            screen.type(message)
            screen.expect(f": {message.strip()}")
        (tmp_path / "work" / "pipe").write_text("go\n", "utf-8")
        screen.expect(lambda text: text.count("I heard you.") + text.count("Next.") == 2)
        screen.expect_rest()
        killed(screen)
        with OnScreen(tmp_path, server.url, "--continue") as again:
            again.expect("Next.")
            again.expect_rest()
            assert OFFERED not in again.text
    operations = [
        (entry["operation"], entry.get("content"))
        for entry in read_entries(tmp_path)
        if entry["type"] == "queue-operation"
    ]
    queued = [("enqueue", "be slow"), ("enqueue", "and then this"), ("dequeue", None)]
    assert operations == queued


@requirement("R285")
def test_waiting_messages_are_named_by_the_next_run_in_line_mode(
    tmp_path: Path, server: LoopbackServer
) -> None:
    with Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect("A whole thought.")
        terminal.type("be slow\n")
        terminal.expect("be slow")
        until(lambda: any(e.get("content") == "be slow" for e in read_entries(tmp_path)))
        terminal.child.kill()
    with Terminal(tmp_path, server.url, "--continue") as terminal:
        terminal.expect("not sent before clew ended: be slow")


def test_contents_of_messages_become_one_prompt_with_images_numbered_anew() -> None:
    def image(data: bytes) -> Json:
        return {"type": "image", "source": {"data": base64.b64encode(data).decode()}}

    def text(words: str) -> Json:
        return {"type": "text", "text": words}

    two = [text("see [Image #4] beside [Image #9]"), image(b"GIF87a1"), image(b"GIF87a2")]
    entry = as_submitted(["plain [Image #1]", two, [image(b"GIF87a3")]])
    assert entry.text == "plain [Image #1]\nsee [Image #1] beside [Image #2]\n[Image #3]"
    assert [(paste.number, paste.data[-1:]) for paste in entry.pasted] == [
        (1, b"1"),
        (2, b"2"),
        (3, b"3"),
    ]


@pytest.mark.crash
def test_a_hundred_kills_lose_no_message_that_was_shown(tmp_path: Path) -> None:
    for kill in range(100):
        home = tmp_path / str(kill)
        home.mkdir()
        with serving(NEVER_ENDS) as server, OnScreen(home, server.url) as screen:
            waits(screen, f"be slow {kill}\r" if kill % 2 else f"and then {kill}\t")
            killed(screen)
        words = [entry.get("content") for entry in read_entries(home)]
        assert (f"be slow {kill}" if kill % 2 else f"and then {kill}") in words
