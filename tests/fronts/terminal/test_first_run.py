"""The first start without a key: what is missing is said, and a model on this machine is offered."""

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


def test_a_model_on_this_machine_is_offered_and_kept(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        place = urlsplit(server.url).netloc
        with Terminal(tmp_path, "", OLLAMA_HOST=place, **NO_KEY) as terminal:
            terminal.expect("No model configured")
            terminal.expect("clew login")
            terminal.expect(f"Ollama at http://{place}")
            terminal.expect("clew demo")
            terminal.expect("1 = claude-")
            terminal.expect("Enter to skip): ")
            terminal.type("1\n")
            terminal.expect("> ")
            terminal.type("hi\n")
            terminal.expect("Hello from here!")
            terminal.expect("> ")
            terminal.type("\x04")
            assert terminal.end() == 0
        assert len(transcripts(tmp_path)) == 1
        with Terminal(tmp_path, "", OLLAMA_HOST=place, **NO_KEY) as terminal:
            terminal.expect("> ")
            assert "No model configured" not in terminal.seen
            terminal.type("\x04")
            assert terminal.end() == 0


def test_who_declines_stays_in_a_session_and_nothing_is_set(tmp_path: Path) -> None:
    with (
        serving(HELLO, strict=True) as server,
        Terminal(tmp_path, "", OLLAMA_HOST=urlsplit(server.url).netloc, **NO_KEY) as terminal,
    ):
        terminal.expect("Enter to skip): ")
        terminal.type("\n")
        terminal.expect("> ")
        terminal.type("/status\n")
        terminal.expect("Transcript")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert not (tmp_path / "config" / "settings.json").exists()


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
    assert list_usual_servers(host)[0] == ("Ollama", port)
    assert list_usual_servers(host)[1:] == USUAL[1:]


async def test_what_does_not_speak_the_messages_api_is_no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert await find_local_servers((("silent", silent.getsockname()[1]),)) == []
    assert await find_local_servers((("nobody", 9),)) == []
