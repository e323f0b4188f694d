"""A failing store, as seen on a terminal: reported, kept visible, and the session continues."""

import json
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.clew_process import transcripts
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement

ANY: dict[str, Any] = {
    "scenario": 1,
    "answers": [{"text": "Hello!"}, {"text": "Still here."}, {"text": "And now."}],
}
TOLD = "this session can't be copied to the store"


@requirement("R258")
def test_a_store_that_fails_is_told_of_once_and_the_session_goes_on(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.write_text("a file stands here", "utf-8")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.json").write_text(
        json.dumps({"sessionStore": str(store)}), "utf-8"
    )
    with serving(ANY, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("one\r")
        screen.expect("Hello!")
        screen.expect(TOLD)
        screen.type("two\r")
        screen.expect("Still here.")
        screen.type("three\r")
        screen.expect("And now.")
        assert TOLD in screen.text
        store.unlink()
        screen.type("\x04")
        assert screen.end() == 0
        assert screen.text.count(TOLD) == 1
    (own,) = transcripts(tmp_path)
    assert (store / own.stem / "session.jsonl").read_bytes() == own.read_bytes()
