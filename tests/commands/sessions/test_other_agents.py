"""Sessions of other agents in clew's lists: read along, never written, and continued as a fork."""

import json
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, command, environment
from tests.record.exchange.test_import import lines, rollout, spoken, tree
from tests.record.transcript.build import SESSION, encoded, talk

CODEX = "0199f0aa-1111-7000-8000-000000000001"


class Machine:
    """A home folder with sessions of Codex and pi, and clew's own config home."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.codex = self.write(
            f".codex/sessions/2026/03/04/rollout-2026-03-04T05-06-07-{CODEX}.jsonl",
            lines(*rollout(str(self.work))),
        )
        self.pi = self.write(
            ".pi/agent/sessions/--w--/s.jsonl", lines(tree()[0] | {"cwd": "/gone"}, *tree()[1:])
        )

    def write(self, name: str, data: bytes) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def run(self, *words: str, code: int = 0, url: str = "") -> str:
        done = clew(self.home, url, *words)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout or done.stderr

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code))

    def files_of_agents(self) -> dict[str, tuple[bytes, int]]:
        return {
            str(path): (path.read_bytes(), path.stat().st_mtime_ns)
            for folder in (".codex", ".pi")
            for path in (self.home / folder).rglob("*")
            if path.is_file()
        }


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_lists_include_other_agents_only_by_choice_and_write_nothing_there(
    machine: Machine,
) -> None:
    before = machine.files_of_agents()
    assert machine.json("sessions", "list", "--all") == []
    assert not (machine.home / "config" / "clew" / "others").exists()
    rows = machine.json("sessions", "list", "--all", "--other-agents")
    assert {(row["agent"], row["title"], row["cwd"]) for row in rows} == {
        ("codex", "List the files.", str(machine.work)),
        ("pi", "My change", "/gone"),
    }
    here = machine.run("sessions", "list", "--other-agents")
    assert CODEX in here
    assert "Codex" in here
    assert "My change" not in here
    assert machine.files_of_agents() == before
    assert machine.json("sessions", "list", "--all") == []
    costly = machine.json("sessions", "list", "--all", "--other-agents", "--cost-over", "0.00001")
    assert [row["agent"] for row in costly] == ["pi"]


def test_search_show_export_and_cost_read_them(machine: Machine) -> None:
    assert machine.json("sessions", "search", "look", code=1)["hits"] == []
    (hit,) = machine.json("sessions", "search", "look", "--other-agents")["hits"]
    assert hit["sessionId"] == CODEX
    (_,) = machine.json("sessions", "search", "look", "--other-agents", "--here")["hits"]
    narrow = ("sessions", "search", "look", "--other-agents", "--session")
    assert len(machine.json(*narrow, CODEX)["hits"]) == 1
    assert "assistant [text]: One file." in machine.run("sessions", "show", CODEX)
    assert "One file." in machine.run("sessions", "export", CODEX[:8])
    costs = machine.json("cost", "--all", "--other-agents")
    assert (costs["sessions"], costs["total"]["inputTokens"]) == (2, 5)
    assert machine.json("cost", "--all")["sessions"] == 0
    assert machine.json("cost", CODEX)["sessions"] == 1
    missing = machine.run("sessions", "show", "nothing like this", code=2)
    assert "not found" in missing


def test_a_session_of_another_agent_is_continued_as_a_fork(machine: Machine) -> None:
    machine.run("sessions", "watch", "--once")
    # The agent goes on meanwhile; what it adds comes along.
    more = lines(spoken("user", "And hidden ones?"), spoken("assistant", "None.", "output_text"))
    machine.codex.write_bytes(machine.codex.read_bytes() + more)
    before = machine.files_of_agents()
    plan = {"scenario": 1, "answers": [{"text": "Going on."}]}
    with serving(plan, strict=True) as server:
        assert machine.run("-p", "go on", "--resume", CODEX, url=server.url) == "Going on.\n"
        (request,) = server.requests
    told = json.dumps(request.body["messages"])
    for words in ("List the files.", "One file.", "And hidden ones?", "None.", "go on"):
        assert words in told, words
    assert machine.files_of_agents() == before
    rows = machine.json("sessions", "list", "--all", "--other-agents")
    # The fork is clew's own session now, and listed once.
    assert [(row["sessionId"], row["agent"]) for row in rows if row["agent"] != "pi"] == [
        (CODEX, None)
    ]
    hits = machine.json("sessions", "search", "hidden", "--other-agents")["hits"]
    assert [Path(hit["path"]).parts[-3] for hit in hits] == ["projects"]
    costs = machine.json("cost", "--all", "--other-agents")
    assert costs["sessions"] == 2


def test_a_copy_with_a_new_id_leaves_no_import_behind(machine: Machine) -> None:
    machine.run("sessions", "watch", "--once")
    plan = {"scenario": 1, "answers": [{"text": "Going on."}] * 2}
    with serving(plan, strict=True) as server:
        words = ("-p", "go on", "--resume", CODEX)
        machine.run(*words, "--no-session-persistence", url=server.url)
        assert machine.json("sessions", "list", "--all") == []
        machine.run(*words, "--fork-session", url=server.url)
    (own,) = machine.json("sessions", "list", "--all")
    assert own["sessionId"] != CODEX


@pytest.fixture
def watching(machine: Machine) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command("sessions", "watch", "--interval", "0.05", "--json"),
        cwd=machine.work,
        env=environment(machine.home, ""),
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    yield process
    process.kill()
    process.communicate()


def test_watching_follows_what_is_new_grown_and_rewritten(
    machine: Machine, watching: subprocess.Popen[str]
) -> None:
    assert watching.stdout is not None
    first = [json.loads(watching.stdout.readline()) for _ in range(2)]
    assert {news["agent"] for news in first} == {"codex", "pi"}
    more = lines(spoken("user", "And hidden ones?"))
    machine.codex.write_bytes(machine.codex.read_bytes() + more)
    news = json.loads(watching.stdout.readline())
    assert news["agent"] == "codex"
    assert [session["sessionId"] for session in news["sessions"]] == [CODEX]
    assert "And hidden ones?" in machine.run("sessions", "show", CODEX)
    # Some agents write the whole file again, with other content.
    machine.codex.write_bytes(machine.codex.read_bytes().replace(b"One file.", b"Two files."))
    json.loads(watching.stdout.readline())
    shown = machine.run("sessions", "show", CODEX)
    assert "Two files." in shown
    assert "One file." not in shown
    torn = machine.write(".codex/sessions/2026/03/04/rollout-x.jsonl", b'{"no": "session"}\n')
    refused = json.loads(watching.stdout.readline())
    assert (refused["file"], len(refused["refused"])) == (str(torn), 1)
    machine.pi.unlink()
    watching.send_signal(signal.SIGINT)
    assert watching.wait(timeout=30) == 130
    # What an agent deletes stays.
    rows = machine.json("sessions", "list", "--all", "--other-agents")
    assert {row["agent"] for row in rows} == {"codex", "pi"}
    assert "others" in machine.run("sessions", "prune", "others")
    machine.run("sessions", "prune", "others", "--yes")
    rows = machine.json("sessions", "list", "--all", "--other-agents")
    assert {row["agent"] for row in rows} == {"codex"}


def test_a_database_is_followed_through_its_log(machine: Machine) -> None:
    path = machine.write(".local/share/goose/sessions/sessions.db", b"")
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE sessions (id TEXT, working_dir TEXT, description TEXT)")
        database.execute(
            "CREATE TABLE messages (session_id TEXT, role TEXT, content_json TEXT,"
            " created_timestamp INTEGER)"
        )

    def say(session: str, text: str) -> None:
        content = json.dumps([{"type": "text", "text": text}])
        database.execute(
            "INSERT INTO messages VALUES (?, 'user', ?, 1772600767)", (session, content)
        )
        database.commit()

    for session in ("one", "two"):
        database.execute("INSERT INTO sessions VALUES (?, '/gone', '')", (session,))
        say(session, f"first of {session}")
    read = machine.run("sessions", "watch", "--once")
    assert "first of one" in read
    say("two", "second of two")
    news = machine.run("sessions", "watch", "--once")
    assert "first of two" in news
    assert "first of one" not in news
    assert machine.run("sessions", "watch", "--once") == ""
    database.close()


def test_claude_code_elsewhere_is_another_agent(machine: Machine) -> None:
    machine.write(f".claude/projects/-w/{SESSION}.jsonl", encoded(talk(2)))
    machine.write(".claude/projects/-w/agent-1.jsonl", encoded(talk(1)))
    rows = machine.json("sessions", "list", "--all", "--other-agents")
    assert [row["sessionId"] for row in rows if row["agent"] == "claude"] == [SESSION]


def test_a_pause_must_be_a_time(machine: Machine) -> None:
    for pause in ("0", "-1", "nan", "inf"):
        assert "--interval must be" in machine.run(
            "sessions", "watch", f"--interval={pause}", code=2
        )


def test_a_flag_turns_it_off(machine: Machine) -> None:
    done = clew(
        machine.home, "", "sessions", "list", "--other-agents",
        environ={"CLEW_FEATURES": "-importers"},
    )  # fmt: skip
    assert done.returncode == 2
    assert "imports are turned off" in done.stderr
    assert not (machine.home / "config" / "clew" / "others").exists()
