"""A rejected request on the terminal: reported, and the session continues."""

import json
from pathlib import Path
from typing import Any

from clew.agent.services import LOGIN
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_screen import READY
from tests.providers.refused import REFUSED

Json = dict[str, Any]
ROWS = {row.name: row for row in REFUSED}
LONG = "the-north-side-is-painted;the-lamp-turns;" * 800
SUMMARY = "The lighthouse is painted on its north side."
REFUSALS = {
    "too long": "OpenRouter: the upstream service reports that the prompt is too long",
    "no money": "OpenAI: the quota is used up",
    "come later": "Anthropic: rate limit for two hours",
}


def refused(kind: str) -> Json:
    row = ROWS[REFUSALS[kind]]
    return {"status": row.status, "body_json": row.body, "headers": dict(row.headers)}


def says(body: Json) -> Json:
    *_, message = (m["content"] for m in body["messages"] if m["role"] == "user")
    last = message if isinstance(message, str) else message[-1]["text"]
    if "</summary>" in last:
        return {"text": SUMMARY}
    if last in ("no money", "come later"):
        return refused(last)
    if LONG[:400] in json.dumps(body["messages"]):
        return refused("too long")
    return {"text": LONG if "all of it" in last else "Gone on."}


def test_a_session_goes_on_after_each_kind_of_refusal(tmp_path: Path) -> None:
    with (
        serving(says, strict=True) as server,
        OnScreen(tmp_path, server.url, columns=160) as screen,
    ):
        screen.expect(READY)
        screen.type("all of it\r")
        screen.expect("the-lamp-turns;")
        screen.settle()
        screen.type("and the south side?\r")
        screen.expect("Compacted")
        screen.expect("Gone on.")
        screen.type("no money\r")
        screen.expect("account has no credit")
        screen.type("come later\r")
        screen.expect("requires a wait of 2 h: try again at")
        screen.type("now?\r")
        screen.expect(lambda text: text.count("Gone on.") == 2)


def test_a_rejected_key_is_named_once_with_the_next_step(tmp_path: Path) -> None:
    error = {"type": "authentication_error", "message": "invalid x-api-key"}
    refusal = {"status": 401, "error": error, "times": "always"}
    plan = {"scenario": 1, "answers": [refusal]}
    with serving(plan) as server, OnScreen(tmp_path, server.url, columns=120) as screen:
        screen.expect(READY)
        screen.type("hi\r")
        screen.expect("API Error: 401 invalid x-api-key")
        screen.expect(LOGIN)
        assert screen.text.count("401") == 1
    with serving(plan) as server:
        done = clew(tmp_path, server.url, "-p", "hi")
    assert done.stdout.count("401") == 1
    assert "clew login" in done.stdout
