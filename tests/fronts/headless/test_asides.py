"""A question outside the conversation: shown and recorded, and never sent with the conversation."""

import json
from pathlib import Path
from typing import Any

from clew.core.messages.encoding import encode
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts, until
from tests.fronts.terminal.screen import OnScreen
from tests.requirements import requirement

Json = dict[str, Any]
QUESTION = "which color was it?"


def model(body: Json) -> Json:
    return (
        {"text": "It was blue."}
        if QUESTION in encode(body["messages"][-1]).decode()
        else {"text": "Painted."}
    )


@requirement("R280", "R020", "R093")
def test_a_question_beside_the_conversation_is_kept_and_never_sent_again(tmp_path: Path) -> None:
    with serving(model, strict=True) as server:
        clew(tmp_path, server.url, "-p", "Paint the door.")
        asked = clew(tmp_path, server.url, "-p", f"/btw {QUESTION}", "--continue")
        assert (asked.returncode, asked.stdout) == (0, "It was blue.\n")
        first, aside = (request.body for request in server.requests)
        # The conversation is the prompt, so that it is read from the cache.
        assert (aside["system"], aside["tools"]) == (first["system"], first["tools"])
        assert "Paint the door." in encode(aside["messages"]).decode()
        for words in ("Go on.", "And on."):
            assert clew(tmp_path, server.url, "-p", words, "--continue").stdout == "Painted.\n"
            sent = encode(server.requests[-1].body["messages"]).decode()
            assert "Paint the door." in sent
            assert QUESTION not in sent
            assert "It was blue." not in sent
    (path,) = transcripts(tmp_path)
    entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    virtual = [entry for entry in entries if entry.get("isVirtual")]
    assert [entry["type"] for entry in virtual] == ["user", "assistant"]
    assert virtual[0]["message"]["content"] == QUESTION
    costs = [entry["purpose"] for entry in entries if entry["type"] == "request-cost"]
    assert costs.count("aside") == 1
    shown = clew(tmp_path, "http://127.0.0.1:9", "sessions", "show", path.stem).stdout
    assert QUESTION in shown
    assert "It was blue." in shown
    assert clew(tmp_path, "http://127.0.0.1:9", "sessions", "check", path.stem).returncode == 0


def test_a_question_beside_nothing_or_without_words_is_an_error(tmp_path: Path) -> None:
    with serving(model, strict=True) as server:
        early = clew(tmp_path, server.url, "-p", f"/btw {QUESTION}")
        assert (early.returncode, server.requests) == (1, [])
        clew(tmp_path, server.url, "-p", "Paint the door.")
        assert clew(tmp_path, server.url, "-p", "/btw", "--continue").returncode == 1
        assert len(server.requests) == 1


def test_on_the_screen_the_answer_is_shown_at_once(tmp_path: Path) -> None:
    with serving(model, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("default")
        screen.type("Paint the door.\r")
        screen.expect("Painted.")
        screen.type(f"/btw {QUESTION}\r")
        screen.expect("It was blue.")
        screen.type("Go on.\r")
        until(lambda: len(server.requests) == 3)
    assert QUESTION not in encode(server.requests[-1].body["messages"]).decode()
