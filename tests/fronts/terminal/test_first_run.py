"""The first start without a key: instructions, and the use of a model on this machine."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from clew.providers.local import USUAL, find_local_servers, list_usual_servers
from clew.testing.server import serving
from tests.fronts.headless.clew_process import transcripts
from tests.fronts.terminal.terminal import Terminal

HELLO = {"scenario": 1, "answers": [{"text": "Hello from here!", "times": "always"}]}
NO_KEY = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": ""}


def test_a_model_on_this_machine_answers_without_a_question(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        place = urlsplit(server.url).netloc
        with Terminal(tmp_path, "", OLLAMA_HOST=place, **NO_KEY) as terminal:
            terminal.expect("> ")
            assert "No model configured" not in terminal.seen
            terminal.type("hi\n")
            terminal.expect("Hello from here!")
            terminal.expect("> ")
            terminal.type("\x04")
            assert terminal.end() == 0
        assert len(transcripts(tmp_path)) == 1
    assert not (tmp_path / "config" / "settings.json").exists()


def test_a_model_that_needs_a_key_is_missing_and_a_local_one_is_named(tmp_path: Path) -> None:
    with (
        serving(HELLO, strict=True) as server,
        Terminal(
            tmp_path, "", OLLAMA_HOST=urlsplit(server.url).netloc, CLEW_MODEL="opus", **NO_KEY
        ) as terminal,
    ):
        terminal.expect("No model configured")
        terminal.expect("/login SERVICE")
        terminal.expect("clew --model ollama/claude-")
        terminal.expect("clew demo")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.end() == 0


@pytest.mark.parametrize(
    ("host", "port"),
    [
        (None, 11434),
        ("127.0.0.1:4711", 4711),
        ("http://localhost:4711/", 4711),
        ("example.com:4711", 11434),
        ("127.0.0.1:words", 11434),
        ("127.0.0.1:99999", 11434),
        ("localhost", 11434),
    ],
)
def test_ollamas_own_variable_moves_it_on_this_machine_only(host: str | None, port: int) -> None:
    assert list_usual_servers(host)[0] == ("ollama", port)
    assert list_usual_servers(host)[1:] == USUAL[1:]


async def test_what_does_not_speak_the_messages_api_is_no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert await find_local_servers((("silent", silent.getsockname()[1]),)) == []
    assert await find_local_servers((("nobody", 9),)) == []
