"""The real program on disks that lose unsynced data, and on disks that fail at any call."""

import errno
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.record.transcript.examine import examine
from clew.testing.server import RecordedRequest, serving
from tests.agent.compaction.test_in_headless import ARGS, PARAGRAPH, coats
from tests.agent.compaction.window import Window
from tests.fronts.headless.agents_model import agent, by_prompt, uses
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.disks import Cut, Failing, laid_below
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.terminal import Terminal
from tests.requirements import requirement

Json: TypeAlias = dict[str, Any]
SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"


class Power:
    """Checks for each request whether its content would survive a power cut now."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        self.left = home / "left"
        self.left.mkdir()
        laid_below(monkeypatch, home / "shim", Cut, str(self.left))
        self.requests = 0
        self.would_be_lost: list[str] = []

    def heed(self, request: RecordedRequest) -> None:
        self.requests += 1
        kept = b"".join(path.read_bytes() for path in self.left.glob("*.jsonl")).decode()
        for message in request.body["messages"]:
            content = message["content"]
            text = [{"type": "text", "text": content}]
            for block in text if isinstance(content, str) else content:
                said = sign_of(block)
                # The order to write a summary is no part of the conversation.
                if said not in kept and "</summary>" not in said:
                    self.would_be_lost.append(f"request {self.requests}: {said[:200]}")


def sign_of(block: Json) -> str:
    """Return text that occurs in a line with this block."""
    match block["type"]:
        case "text":
            said = re.sub(r"\A<system-reminder[^>]*>\n", "", block["text"])
            said = said.removesuffix("\n</system-reminder>")
            return json.dumps(said, ensure_ascii=False)[1:-1]
        case "tool_use":
            return f'"id":"{block["id"]}"'
    return f'"tool_use_id":"{block["tool_use_id"]}"'


def by_print(home: Path, url: str) -> None:
    for words in (["go"], ["and on", "--continue"]):
        done = clew(home, url, "-p", *words, "--allowedTools", "Bash")
        assert done.returncode == 0, done.stderr


def by_host(home: Path, url: str) -> None:
    with Hosted(home, url, "--allowedTools", "Bash") as host:
        for words in ("go", "and on"):
            host.say(words)
            host.result()
        assert host.end() == 0


def at_a_terminal(home: Path, url: str) -> None:
    with Terminal(home, url, "--allowedTools", "Bash") as terminal:
        for words, answer in {"go": "All done.", "and on": "Again."}.items():
            terminal.expect("> ")
            terminal.type(f"{words}\n")
            terminal.expect(answer)


@requirement("W23")
@pytest.mark.parametrize("front", [by_print, by_host, at_a_terminal])
def test_what_is_sent_and_what_runs_would_survive_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, front: Callable[[Path, str], None]
) -> None:
    power = Power(monkeypatch, tmp_path)

    def looks(name: str) -> Json:
        """A call that records what a power cut would leave when it runs."""
        return {"tool": "Bash", "input": {"command": f"cat {power.left}/*.jsonl > {name}.seen"}}

    answers = {
        "go": [
            {"content": ["First.", looks("a"), looks("b"), "And then.", looks("c")]},
            uses(agent("dig")),
            uses(looks("d")),
            {"text": "All done."},
        ],
        "dig": [uses(looks("e")), {"text": "Gold."}],
        "and on": [uses(looks("f")), {"text": "Again."}],
    }
    with serving(by_prompt(answers), strict=True, on_request=power.heed) as server:
        front(tmp_path, server.url)
    assert power.requests == 8
    assert power.would_be_lost == []
    for name in "abcdef":
        seen = (tmp_path / "work" / f"{name}.seen").read_text("utf-8")
        assert f"> {name}.seen" in seen, f"call {name} ran before it was there for good"


@requirement("W23")
@pytest.mark.parametrize("limit", [24_000, 12_000], ids=["in time", "when refused"])
def test_a_summary_would_survive_a_power_cut_before_anything_is_asked_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    power = Power(monkeypatch, tmp_path)
    window = Window(coats(16), limit=limit)
    with serving(window, strict=True, on_request=power.heed) as server:
        done = clew(tmp_path, server.url, "-p", "Paint it. " + PARAGRAPH, *ARGS)
    assert done.stdout == "All painted.\n", done.stderr
    assert window.summaries
    assert bool(window.refused) == (limit < 24_000)
    assert power.would_be_lost == []


def echo(name: str) -> Json:
    return {"tool": "Bash", "input": {"command": f"echo said {name}"}}


WORK = {
    "go": [
        {"content": ["Both.", echo("a"), echo("b")]},
        uses(agent("dig")),
        {"text": "All done."},
    ],
    "dig": [uses(echo("c")), {"text": "Gold."}],
    "and on": [{"text": "Again."}],
}
SAID = ("go", "said a", "said b", "Gold.", "All done.", "and on")


def goes_on_though(
    monkeypatch: pytest.MonkeyPatch, home: Path, n: int, *, short: int | None, is_lasting: bool
) -> int:
    """Run a session whose disk fails at the n-th call, and one on a good disk; return the calls."""
    home.mkdir()
    calls, projects = home / "calls", home / "config" / "projects"
    failing = {"is_lasting": is_lasting, "short_bytes": short}
    with serving(by_prompt(WORK), strict=True) as server, monkeypatch.context() as below:
        laid_below(below, home / "shim", Failing, n, str(projects), str(calls), **failing)
        words = ("-p", "go", "--session-id", SESSION, "--allowedTools", "Bash")
        done = clew(home, server.url, *words)
        assert (done.returncode, done.stdout) == (0, "All done.\n"), (n, done.stderr)
        below.undo()
        after = clew(home, server.url, "-p", "and on", "--resume", SESSION)
        assert (after.returncode, after.stdout) == (0, "Again.\n"), (n, after.stderr)
        sent = json.dumps(server.requests[-1].body["messages"])
    assert [said for said in SAID if said not in sent] == [], n
    assert not list((home / "config" / "clew" / "unsaved").glob(f"{SESSION}*")), n
    (path,) = transcripts(home)
    # Lines may be there twice or torn, which is no damage to any reader.
    assert [str(finding) for finding in examine(path).errors] == [], n
    return int(calls.read_text("ascii"))


@requirement("R258")
@pytest.mark.parametrize("n", [1, 4, 7])
def test_a_disk_that_fails_for_good_costs_no_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    assert goes_on_though(monkeypatch, tmp_path / "home", n, short=None, is_lasting=True) >= n


@pytest.mark.crash
@pytest.mark.parametrize("is_lasting", [False, True])
@pytest.mark.parametrize("short", [None, 1, 300])
def test_a_disk_that_fails_at_any_call_costs_no_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: int | None, is_lasting: bool
) -> None:
    how = {"short": short, "is_lasting": is_lasting}
    calls = goes_on_though(monkeypatch, tmp_path / "well", 1 << 30, short=None, is_lasting=False)
    assert calls > 20
    for n in range(1, calls + 1):
        goes_on_though(monkeypatch, tmp_path / str(n), n, **how)


def test_a_host_is_told_of_lines_that_a_full_disk_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = {"is_lasting": True, "code": errno.ENOSPC}
    flags = ("--output-format", "stream-json", "--verbose", "--session-id", SESSION)
    with serving(by_prompt({"go": [{"text": "All done."}]})) as server:
        # Neither the transcript nor a recovery file can be written.
        laid_below(monkeypatch, tmp_path / "shim", Failing, 1, "/", str(tmp_path / "calls"), **full)
        done = clew(tmp_path, server.url, "-p", "go", *flags)
    assert done.returncode == 1, done.stderr
    *_, result, last = map(json.loads, done.stdout.splitlines())
    assert result["subtype"] == "success"
    assert {name: last[name] for name in ("subtype", "error_code", "lost")} == {
        "subtype": "session_writes_lost",
        "error_code": "ENOSPC",
        "lost": ["transcript"],
    }
    assert last["transcript_session_ids"] == [SESSION]
