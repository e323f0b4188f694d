"""Host programs read and write sessions with the published SDK's own functions."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import pytest

from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
LOOK = {"tool": "Bash", "input": {"command": "echo seen"}}
TALK: dict[str, Any] = {
    "scenario": 1,
    "answers": [{"content": ["Both.", LOOK, LOOK]}, {"text": "Fine.", "times": "always"}],
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    with serving(TALK, strict=True) as served:
        yield served


def said(server: LoopbackServer) -> list[list[dict[str, Any]]]:
    """The messages of the last request, without marks for the cache."""
    return [
        [{k: v for k, v in block.items() if k != "cache_control"} for block in message["content"]]
        for message in server.requests[-1].body["messages"]
    ]


def listed(home: Path, url: str) -> dict[str, tuple[str, str]]:
    found = json.loads(clew(home, url, "sessions", "list", "--json").stdout)
    return {one["sessionId"]: (one["title"], one["tag"]) for one in found}


@pytest.mark.parametrize("where", ["in the prompt", "in what is to be known"])
def test_a_session_that_begins_with_very_much_is_in_a_hosts_list(
    tmp_path: Path, server: LoopbackServer, where: str
) -> None:
    (tmp_path / "work").mkdir()
    much = "very much " * 20_000
    prompt = f"look\n{much}" if where == "in the prompt" else "look"
    if where != "in the prompt":
        (tmp_path / "work" / "CLAUDE.md").write_text(much, "utf-8")
    done = clew(tmp_path, server.url, "-p", "--session-id", SESSION, input=prompt)
    assert done.returncode == 0, done.stderr
    (path,) = transcripts(tmp_path)
    assert path.stat().st_size > len(much)
    (info,) = sdk.list_sessions()
    assert info.session_id == SESSION
    assert info.summary.startswith("look")
    assert len(info.summary) <= 201
    assert info.cwd == str((tmp_path / "work").resolve())
    assert info.created_at is not None
    ((title, _),) = listed(tmp_path, server.url).values()
    assert title.startswith("look")
    assert len(title) <= 201
    # What lists show is a name to go on by.
    assert clew(tmp_path, server.url, "-p", "and on", "--resume", title).returncode == 0
    assert transcripts(tmp_path) == [path]


def test_what_a_host_writes_while_a_session_runs_stays_and_counts(
    tmp_path: Path, server: LoopbackServer
) -> None:
    with Hosted(tmp_path, server.url, "--session-id", SESSION, "--allowedTools", "Bash") as host:
        host.say("one")
        host.result()
        sdk.rename_session(SESSION, "Theirs")
        sdk.tag_session(SESSION, "kept")
        host.say("two")
        host.result()
        assert host.end() == 0
    assert listed(tmp_path, server.url) == {SESSION: ("Theirs", "kept")}
    (info,) = sdk.list_sessions()
    assert (info.custom_title, info.tag) == ("Theirs", "kept")
    (path,) = transcripts(tmp_path)
    entries = [json.loads(line) for line in path.read_bytes().splitlines()]
    talk = [e for e in entries if e["type"] in ("user", "assistant") and not e.get("isMeta")]
    # Two prompts, three blocks and two results, two last words.
    assert [m.uuid for m in sdk.get_session_messages(SESSION)] == [e["uuid"] for e in talk]
    assert len(talk) == 9


def test_a_hosts_copy_continues_as_the_session_did_and_keeps_its_name(
    tmp_path: Path, server: LoopbackServer
) -> None:
    free = ("--allowedTools", "Bash")
    clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION, *free)
    clew(tmp_path, server.url, "-p", "two", "--resume", SESSION, *free)
    before = said(server)
    (original,) = transcripts(tmp_path)
    kept = original.read_bytes()
    copy = sdk.fork_session(SESSION, title="A copy").session_id
    done = clew(tmp_path, server.url, "-p", "three", "--resume", copy, *free)
    assert (done.returncode, done.stdout) == (0, "Fine.\n"), done.stderr
    assert said(server)[: len(before)] == before
    assert original.read_bytes() == kept
    # The host's line with the name has an id, as an entry of the conversation has.
    clew(tmp_path, server.url, "-p", "four", "--resume", copy, "--fork-session", *free)
    titles = sorted(title for title, _ in listed(tmp_path, server.url).values())
    assert titles == ["A copy", "A copy (fork)", "one"]


def test_a_session_that_a_host_deletes_while_it_runs_is_there_again_with_all_of_it(
    tmp_path: Path, server: LoopbackServer
) -> None:
    with Hosted(tmp_path, server.url, "--session-id", SESSION, "--allowedTools", "Bash") as host:
        host.say("one")
        host.result()
        sdk.delete_session(SESSION)
        assert transcripts(tmp_path) == []
        host.say("two")
        host.result()
        assert host.end() == 0
    assert len(sdk.get_session_messages(SESSION)) == 9
