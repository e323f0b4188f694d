"""A full disk loses nothing of a subagent.

It continues from its recovery file as from its transcript.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.agent.subagents.offer import WAITING
from clew.record.transcript.load import load
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, results, uses
from tests.fronts.headless.clew_process import clew, command, environment, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_agents import agent_files
from tests.fronts.headless.test_kept import told
from tests.fronts.headless.test_mail import gated, is_of_agent, killed, tells
from tests.requirements import requirement

Json: TypeAlias = dict[str, Any]
LOOKS: Json = {"tool": "LS", "input": {"path": "."}}


def plan(words: str) -> dict[str, list[Any]]:
    return {
        f"send {words}": [tells("mole", f"dig {words}"), {"text": "sent"}],
        f"dig {words}": [{"text": f"dug {words}"}],
        "<task-notification>": [{"text": "heard"}],
    }


def answered(home: Path, words: str, run: Callable[[str, str], Any]) -> Json:
    """Send the agent a message; return its next request."""
    with serving(by_prompt(plan(words)), strict=True) as server:
        done = run(server.url, f"send {words}")
        assert (done.returncode, done.stdout) == (0, "sent\n\nheard\n"), done.stderr
        (body,) = [r.body for r in server.requests if is_of_agent(r.body)]
    return body


@requirement("R199", "R203")
def test_an_agent_whose_file_takes_no_more_continues_from_all_that_it_said(tmp_path: Path) -> None:
    """A file may not grow beyond 200 kB: the agent's has more already, the session's and copies have not."""
    asked = {
        "go": [uses(agent("dig", name="mole")), {"text": "begun"}],
        "dig": [{"content": ["long " * 60_000, LOOKS]}, {"text": "dug"}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "go").returncode == 0
    (file,) = agent_files(tmp_path)
    (session,) = transcripts(tmp_path)
    before = file.read_bytes()
    unsaved = tmp_path / "config" / "clew" / "unsaved"

    def full(url: str, words: str) -> subprocess.CompletedProcess[str]:
        limited = ["sh", "-c", 'ulimit -f 400; exec "$@"', "sh"]
        return ran(tmp_path, url, [*limited, *command("-p", "--continue", words)])

    def whole(url: str, words: str) -> subprocess.CompletedProcess[str]:
        return clew(tmp_path, url, "-p", "--continue", words)

    answered(tmp_path, "one", full)
    (copy,) = unsaved.iterdir()
    assert file.read_bytes() == before
    said = told(answered(tmp_path, "two", full))
    assert [said.count(words) for words in ("dig one", "dug one", "dig two")] == [1, 1, 1]
    for word in ("check", "repair", "export", "tree"):
        done = clew(tmp_path, "http://127.0.0.1:1", "sessions", word, session.stem)
        assert f"later messages are in {copy}" in done.stderr
    # Where there is space again it is brought home with its session, though nobody asks for the agent.
    with serving(by_prompt({"hello": [{"text": "hello"}]}), strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "--continue", "hello").stderr == ""
    assert not list(unsaved.iterdir())
    assert file.read_bytes().startswith(before)
    texts = json.dumps(load(file).messages)
    assert [texts.count(words) for words in ("dug one", "dug two")] == [1, 1]
    said = told(answered(tmp_path, "three", whole))
    assert [said.count(f"dug {words}") for words in ("one", "two", "three")] == [1, 1, 0]


def ran(home: Path, url: str, words: list[str], **environ: str) -> subprocess.CompletedProcess[str]:
    (home / "work").mkdir(exist_ok=True)
    return subprocess.run(
        words,
        cwd=home / "work",
        env=environment(home, url) | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.fixture
def nowhere(tmp_path: Path) -> dict[str, str]:
    """Return a config home in which nothing can be created, and a folder for temporary files."""
    (tmp_path / "work").mkdir()
    (tmp_path / "spare").mkdir()
    (tmp_path / "config").write_text("no folder can be made here", "utf-8")
    return {"TMPDIR": str(tmp_path / "spare")}


def copies(home: Path) -> list[str]:
    found = sorted((home / "spare").glob("clew-*/agent-*"))
    return [path.name.partition(".")[2].partition(".")[0] for path in found]


@requirement("R199", "R203")
def test_an_agent_is_begun_and_continues_as_what_it_is_where_the_home_takes_nothing(
    tmp_path: Path, nowhere: dict[str, str]
) -> None:
    def run(url: str, *words: str) -> subprocess.CompletedProcess[str]:
        return ran(tmp_path, url, command("-p", *words), **nowhere)

    asked = {
        "go": [
            uses(agent("dig", name="mole", subagent_type="Explore")),
            lambda body: {"text": results(body)[0].split("\n")[0]},
        ],
        "dig": [{"text": "dug"}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        assert run(server.url, "go").stdout == "dug\n"
        (first,) = [r.body for r in server.requests if is_of_agent(r.body)]
    # Its transcript, and what it was.
    session = transcripts_in(tmp_path / "spare")[0].stem
    assert copies(tmp_path) == [session, "meta"]
    for words in ("one", "two"):
        body = answered(tmp_path, words, lambda url, *asked: run(url, "--continue", *asked))
        assert body["system"] == first["system"]
        assert body["tools"] == first["tools"]
    said = told(body)
    assert [said.count(w) for w in ('dug"', "dug one", "dig two")] == [1, 1, 1]
    (tmp_path / "config").unlink()
    with serving(by_prompt({"hello": [{"text": "hello"}]}), strict=True) as server:
        assert "not saved" not in run(server.url, "--continue", "hello").stderr
    assert copies(tmp_path) == []
    (file,) = agent_files(tmp_path)
    assert json.dumps(load(file).messages).count("dug two") == 1
    assert json.loads(file.with_suffix(".meta.json").read_bytes())["finished"] == "completed"


def transcripts_in(spare: Path) -> list[Path]:
    return sorted(p for p in spare.glob("clew-*/*.jsonl") if not p.name.startswith("agent-"))


@requirement("R199", "R201")
def test_what_an_agent_was_told_on_a_full_disk_before_a_crash_it_hears_when_it_continues(
    tmp_path: Path, nowhere: dict[str, str]
) -> None:
    answers = {
        "go": [uses(agent("dig", run_in_background=True, name="mole")), {"text": "begun"}],
        "dig": [uses(LOOKS), uses(gated("hole"))],
        "tell it": [tells("mole", "look left too"), {"text": "told"}],
    }
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash", **nowhere) as host,
    ):
        host.say("go")
        host.result()
        until((tmp_path / "work" / "hole").exists)
        host.say("tell it")
        assert host.result()["result"] == "told"
        killed(host)
    with serving(by_prompt(plan("on")), strict=True) as server:
        done = ran(tmp_path, server.url, command("-p", "--continue", "send on"), **nowhere)
        assert (done.returncode, done.stdout) == (0, "sent\n\nheard\n"), done.stderr
        bodies = [request.body for request in server.requests]
    first = told(bodies[0])
    assert "It made 2 tool calls, most recently:\\n- LS .\\n- Bash mkfifo hole; cat hole" in first
    assert f"{WAITING}\\n- look left too" in first
    (again,) = [told(body) for body in bodies if is_of_agent(body)]
    assert again.count("look left too") == 1
    assert again.index("look left too") < again.index("dig on")
