"""Titles of sessions: the user's own, a generated one, or the first prompt; never the last prompt."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_dialogs import settings
from tests.fronts.terminal.test_screen import READY

Json = dict[str, Any]


def is_for_title(body: Json) -> bool:
    return "You write titles" in json.dumps(body.get("system", ""))


def says(body: Json) -> Json:
    return {"text": '"Holes in the net"' if is_for_title(body) else "Mended."}


def title_requests(server: LoopbackServer) -> int:
    return sum(is_for_title(request.body) for request in server.requests)


def talk(screen: OnScreen, *prompts: str) -> None:
    for number, prompt in enumerate(prompts, 1):
        screen.type(f"{prompt}\r")
        screen.expect(lambda text, n=number: text.count("Mended.") == n)
        screen.expect_rest()


def test_a_title_is_generated_once_and_shown_everywhere(tmp_path: Path) -> None:
    settings(tmp_path, generateTitles=True)
    with serving(says) as server:
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect(READY)
            talk(screen, "find the holes in the net, please")
            screen.expect(lambda _: screen.glass.title == "clew: Holes in the net")
            talk_again = "and mend them"
            screen.type(f"{talk_again}\r")
            screen.expect(lambda text: text.count("Mended.") == 2)
            screen.expect_rest()
            screen.type("\x04")
            screen.end()
        with OnScreen(tmp_path, server.url, "--resume") as screen:
            screen.expect("Holes in the net")
            screen.type("\r")
            screen.expect("and mend them")
            screen.type("once more, to be sure\r")
            screen.expect(lambda text: text.count("Mended.") == 3)
            screen.expect_rest()
            assert screen.glass.title == "clew: Holes in the net"
        listed = clew(tmp_path, server.url, "sessions", "list").stdout
        assert title_requests(server) == 1
    assert "Holes in the net" in listed
    assert "once more" not in listed
    log = transcripts(tmp_path)[0].read_text("utf-8").split("\n")
    assert sum('"request-cost"' in line and "haiku" in line for line in log) == 1


@pytest.mark.parametrize("how", ["other service", "environment", "setting", "named"])
def test_the_first_prompt_is_the_title_if_none_is_generated(tmp_path: Path, how: str) -> None:
    if how != "other service":
        settings(tmp_path, generateTitles=how != "setting")
    environ = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"} if how == "environment" else {}
    args = ("--name", "My nets") if how == "named" else ()
    with serving(says) as server:
        with OnScreen(tmp_path, server.url, *args, env=environ) as screen:
            screen.expect(READY)
            talk(screen, "find the holes in the net", "n")
            title = "My nets" if how == "named" else "find the holes in the net"
            assert screen.glass.title == f"clew: {title}"
            screen.type("/rename Torn nets\r")
            screen.expect(lambda _: screen.glass.title == "clew: Torn nets")
            screen.type("\x04")
            screen.end()
        assert title_requests(server) == 0
        listed = clew(tmp_path, server.url, "sessions", "list", "--json").stdout
        named = json.loads(listed)[0]
    assert (named["title"], named["firstPrompt"]) == ("Torn nets", "find the holes in the net")


def test_a_greeting_is_no_reason_for_a_title(tmp_path: Path) -> None:
    settings(tmp_path, generateTitles=True)
    with serving(says) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        talk(screen, "hi")
        assert title_requests(server) == 0
        screen.type("find the holes\r")
        screen.expect(lambda _: screen.glass.title == "clew: Holes in the net")


def test_a_title_that_never_arrives_delays_nothing(tmp_path: Path) -> None:
    settings(tmp_path, generateTitles=True)
    plan = {
        "scenario": 1,
        "answers": [
            {
                "when": {"model": "haiku"},
                "text": "x",
                "faults": [{"after_events": 0, "stall_s": "forever"}],
                "times": "always",
            },
            {"text": "Mended.", "times": "always"},
        ],
    }
    with serving(plan) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        talk(screen, "find the holes in the net")
        screen.expect(lambda _: len(server.requests) == 2)
        screen.type("n\r")
        screen.expect(lambda text: text.count("Mended.") == 2)
        screen.expect_rest()
        assert screen.glass.title == "clew: find the holes in the net"
        screen.type("\x04")
        screen.end()
