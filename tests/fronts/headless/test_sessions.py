"""`clew -p` and its sessions as processes: locked, killed, without a disk, named in every way."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless.clew_process import clew, command, environment, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.requirements import requirement

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
FREE = "--allowed-tools=Bash"
TALK: dict[str, Any] = {
    "scenario": 1,
    "answers": [
        {
            "when": {"user": "wait"},
            "content": ["I wait.", {"tool": "Bash", "input": {"command": "touch on; sleep 60"}}],
        },
        {"text": "Fine.", "times": "always"},
    ],
}


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with serving(TALK, strict=True) as served:
        yield served


@pytest.fixture
def waiting(tmp_path: Path, server: LoopbackServer) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs a call of the session and continues it until it is killed."""
    (tmp_path / "work").mkdir()
    process = subprocess.Popen(
        command("-p", "wait", FREE, "--session-id", SESSION),
        cwd=tmp_path / "work",
        env=environment(tmp_path, server.url),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until((tmp_path / "work" / "on").exists)
    yield process
    process.kill()
    process.wait(30)


def live(home: Path, url: str, session: str) -> list[dict[str, Any]]:
    done = clew(home, url, "sessions", "show", session, "--json")
    messages: list[dict[str, Any]] = json.loads(done.stdout)["messages"]
    return messages


@requirement("R197")
def test_a_session_that_another_process_has_is_refused_in_one_line_and_can_be_forked(
    tmp_path: Path, server: LoopbackServer, waiting: subprocess.Popen[bytes]
) -> None:
    (place,) = transcripts(tmp_path)
    before = place.read_bytes()
    held = clew(tmp_path, server.url, "-p", "me too", "--resume", SESSION)
    assert (held.returncode, held.stdout) == (1, "")
    assert held.stderr.startswith(f"clew: session {SESSION} is open in process {waiting.pid} in ")
    assert held.stderr.count("\n") == 1
    # Since when it is open stands there by a person's clock, and each command as a whole.
    since = re.search(r", since (\d{4}-\d\d-\d\d \d\d:\d\d); ", held.stderr)
    assert since is not None, held.stderr
    for words in ("clew --resume {} --fork-session", "clew sessions show {}"):
        assert f"`{words.format(SESSION)}`" in held.stderr
    moved = tmp_path / "aside" / place.name
    moved.parent.mkdir()
    moved.hardlink_to(place)
    by_file = clew(tmp_path, server.url, "-p", "me too", "--resume", str(moved))
    moved.unlink()
    assert f"`clew --resume {moved} --fork-session`" in by_file.stderr
    forked = clew(tmp_path, server.url, "-p", "me too", "--resume", SESSION, "--fork-session")
    assert (forked.returncode, forked.stdout) == (0, "Fine.\n")
    assert place.read_bytes() == before
    (copy,) = set(transcripts(tmp_path)) - {place}
    assert b'"type":"clew-session"' in copy.read_bytes().split(b"\n")[0]
    shown = clew(tmp_path, server.url, "sessions", "tree", SESSION, "--json")
    (fork,) = json.loads(shown.stdout)["forks"]
    assert fork["sessionId"] == copy.stem
    told = clew(tmp_path, server.url, "sessions", "tree", copy.stem)
    assert told.stdout.startswith(f"forked from {SESSION} at {fork['messageUuid']}\n")
    checked = clew(tmp_path, server.url, "sessions", "check", str(copy))
    assert checked.returncode == 0, checked.stdout


def test_a_file_without_an_id_for_a_name_continues_in_a_copy_alone(
    tmp_path: Path, server: LoopbackServer
) -> None:
    assert clew(tmp_path, server.url, "-p", "hi").returncode == 0
    (place,) = transcripts(tmp_path)
    named = tmp_path / "work" / "my talk.jsonl"
    place.rename(named)
    held = named.read_bytes()
    done = clew(tmp_path, server.url, "-p", "on", "--resume", "my talk.jsonl")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"clew: {named}: the file name is not a session ID; "
        f"to continue in a copy, run `clew --resume '{named}' --fork-session`\n"
    )
    done = clew(tmp_path, server.url, "-p", "on", "--resume", str(named), "--fork-session")
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    assert named.read_bytes() == held
    assert len(transcripts(tmp_path)) == 1


def opened(home: Path, url: str) -> Any:
    (listed,) = json.loads(clew(home, url, "sessions", "list", "--json").stdout)
    return listed["open"]


@requirement("R268")
def test_others_see_who_has_a_session_what_it_is_called_and_whether_it_works(
    tmp_path: Path, server: LoopbackServer
) -> None:
    with Hosted(tmp_path, server.url, "--session-id", SESSION, FREE) as host:
        host.say("hello")
        host.result()
        until(lambda: opened(tmp_path, server.url)["status"] == "idle")
        found = opened(tmp_path, server.url)
        assert (found["pid"], found["name"]) == (host.process.pid, "")
        host.say("/rename Apples")
        host.result()
        host.say("wait")
        until((tmp_path / "work" / "on").exists)
        found = opened(tmp_path, server.url)
        assert (found["status"], found["name"]) == ("busy", "Apples")
        listed = clew(tmp_path, server.url, "sessions", "list").stdout
        assert f"Apples  (open: process {host.process.pid}, busy)" in listed
        held = clew(tmp_path, server.url, "-p", "me too", "--resume", SESSION)
        assert f"is open in process {host.process.pid} (Apples) in " in held.stderr
        host.process.kill()
        host.process.wait(30)
    assert opened(tmp_path, server.url) is None
    with Hosted(tmp_path, server.url, "--resume", SESSION) as host:
        host.say("hello again")
        host.result()
        assert opened(tmp_path, server.url)["name"] == "Apples"
        assert host.end() == 0
    assert opened(tmp_path, server.url) is None


def test_a_fork_of_a_titled_session_can_be_told_from_it(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}
    with serving(plan) as server:
        clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION, "--name", "Apples")
        clew(tmp_path, server.url, "-p", "two", "--resume", SESSION, "--fork-session")
        listed = json.loads(clew(tmp_path, server.url, "sessions", "list", "--json").stdout)
        assert sorted(one["title"] for one in listed) == ["Apples", "Apples (fork)"]
        # A title is a name to go on by.
        on = clew(tmp_path, server.url, "-p", "three", "--resume", "Apples (fork)")
        assert on.returncode == 0, on.stderr
        assert [len(r.body["messages"]) for r in server.requests] == [2, 4, 6]


@requirement("W10")
def test_a_call_that_died_with_its_process_gets_its_result_on_disk(
    tmp_path: Path, server: LoopbackServer, waiting: subprocess.Popen[bytes]
) -> None:
    waiting.send_signal(signal.SIGKILL)
    waiting.wait(30)
    done = clew(tmp_path, server.url, "-p", "go on", "--resume", SESSION)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Fine.\n", "")
    checked = clew(tmp_path, server.url, "sessions", "check", SESSION)
    assert checked.returncode == 0, checked.stdout
    content = server.requests[-1].body["messages"][-1]["content"]
    assert "clew exited" in content[0]["content"]
    assert [m["type"] for m in live(tmp_path, server.url, SESSION)][-4:] == [
        "assistant",
        "user",
        "user",
        "assistant",
    ]


@pytest.mark.parametrize("what", ["a file", "missing"])
def test_a_home_that_takes_no_file_stops_nothing_and_the_copy_is_named(
    tmp_path: Path, server: LoopbackServer, what: str
) -> None:
    spare = tmp_path / "spare"
    spare.mkdir()
    (tmp_path / "file").write_bytes(b"")
    home = tmp_path / "file" if what == "a file" else Path("/proc/nowhere")
    places = {"CLEW_CONFIG_DIR": str(home), "TMPDIR": str(spare)}
    done = ran(tmp_path, server, command("-p", "hi"), **places)
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    (copy,) = spare.glob("clew-*/*.jsonl")
    assert str(copy) in done.stderr
    assert "Traceback" not in done.stderr
    lines = filter(None, copy.read_bytes().split(b"\n"))
    ids = [entry.get("uuid") for entry in map(json.loads, lines)]
    assert len(list(filter(None, ids))) == len(set(filter(None, ids))) > 1


def test_a_session_of_which_only_the_recovery_file_is_there_is_listed_and_continues(
    tmp_path: Path, server: LoopbackServer
) -> None:
    clew(tmp_path, server.url, "-p", "hi", "--session-id", SESSION)
    unsaved = tmp_path / "config" / "clew" / "unsaved"
    unsaved.mkdir(mode=0o700)
    (place,) = transcripts(tmp_path)
    place.rename(unsaved / place.name)
    listed = clew(tmp_path, server.url, "sessions", "list")
    assert SESSION in listed.stdout
    assert next(m["type"] for m in live(tmp_path, server.url, SESSION)) == "user"
    done = clew(tmp_path, server.url, "-p", "on", "--continue")
    assert (done.returncode, done.stderr) == (0, "")
    assert transcripts(tmp_path) == [place]
    assert not list(unsaved.iterdir())
    assert "hi" in json.dumps(server.requests[-1].body["messages"])


def ran(
    home: Path, server: LoopbackServer, words: list[str], **environ: str
) -> subprocess.CompletedProcess[str]:
    (home / "work").mkdir(exist_ok=True)
    return subprocess.run(
        words,
        cwd=home / "work",
        env=environment(home, server.url) | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def said(server: LoopbackServer) -> list[str]:
    """Return the prompts in the last request."""
    blocks = [b for m in server.requests[-1].body["messages"] for b in m["content"]]
    texts = [block if isinstance(block, str) else block.get("text", "") for block in blocks]
    return [text for text in texts if text in ("one", "two", "three", "four")]


def test_a_session_whose_home_takes_nothing_continues_from_its_recovery_file_as_often_as_wished(
    tmp_path: Path, server: LoopbackServer
) -> None:
    (tmp_path / "spare").mkdir()
    home = tmp_path / "config"
    home.write_text("no folder can be made here", "utf-8")

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return ran(tmp_path, server, command(*args), TMPDIR=str(tmp_path / "spare"))

    assert run("-p", "one", "--session-id", SESSION).returncode == 0
    assert "exists" in run("-p", "one", "--session-id", SESSION).stderr
    for asked, how in {"two": f"--resume={SESSION}", "three": "--continue"}.items():
        done = run("-p", asked, how)
        (copy,) = (tmp_path / "spare").glob("clew-*/*.jsonl")
        assert done.returncode == 0
        assert f"a copy is in {copy}" in done.stderr
    assert said(server) == ["one", "two", "three"]
    assert SESSION in run("sessions", "list").stdout
    home.unlink()
    assert "not saved" not in run("-p", "four", "--resume", SESSION).stderr
    assert said(server) == ["one", "two", "three", "four"]
    assert not copy.exists()
    (place,) = transcripts(tmp_path)
    assert place.read_bytes().count(b'"content":"two"') == 1


def test_what_a_full_disk_kept_out_of_a_session_is_there_at_each_resume(
    tmp_path: Path, server: LoopbackServer
) -> None:
    """A file may not grow beyond 200 kB: the session's has more already, its copy has not."""

    def full(*args: str) -> subprocess.CompletedProcess[str]:
        return ran(
            tmp_path, server, ["sh", "-c", 'ulimit -f 400; exec "$@"', "sh", *command(*args)]
        )

    clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION)
    clew(tmp_path, server.url, "-p", "--resume", SESSION, input="long " * 60_000)
    (place,) = transcripts(tmp_path)
    before = place.read_bytes()
    for asked in ("two", "three"):
        done = full("-p", asked, "--resume", SESSION)
        assert (done.returncode, done.stdout) == (0, "Fine.\n"), done.stderr
        assert "File too large" in done.stderr
    assert said(server) == ["one", "two", "three"]
    assert place.read_bytes() == before
    shown = clew(tmp_path, server.url, "sessions", "show", SESSION).stdout
    assert "user: three" in shown
    (copy,) = (tmp_path / "config" / "clew" / "unsaved").glob(f"{SESSION}*")
    for word in ("check", "repair", "export", "tree"):
        told = clew(tmp_path, server.url, "sessions", word, SESSION).stderr
        assert f"later messages are in {copy}" in told
    fork = full("-p", "four", "--resume", SESSION, "--fork-session")
    assert fork.returncode == 1
    assert "the data is lost" in fork.stderr
    assert said(server) == ["one", "two", "three", "four"]
    clew(tmp_path, server.url, "-p", "four", "--resume", SESSION)
    assert said(server) == ["one", "two", "three", "four"]
    assert place.read_bytes().startswith(before)
    assert not list((tmp_path / "config" / "clew" / "unsaved").glob(f"{SESSION}*"))


@pytest.mark.parametrize("name", [SESSION.upper(), "hi", "FILE"])
@requirement("R162")
def test_an_id_a_title_and_a_file_mean_the_same_to_resume_and_to_sessions(
    tmp_path: Path, server: LoopbackServer, name: str
) -> None:
    clew(tmp_path, server.url, "-p", "hi", "--session-id", SESSION)
    (place,) = transcripts(tmp_path)
    name = str(place) if name == "FILE" else name
    assert len(live(tmp_path, server.url, name)) > 1
    done = clew(tmp_path, server.url, "-p", "on", "--resume", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert transcripts(tmp_path) == [place]


def test_a_prompt_that_a_damaged_file_lost_is_said_to_who_continues(
    tmp_path: Path, server: LoopbackServer
) -> None:
    assert clew(tmp_path, server.url, "-p", "first").returncode == 0
    assert clew(tmp_path, server.url, "-p", "second", "--continue").stderr == ""
    (file,) = transcripts(tmp_path)
    lines = file.read_text("utf-8").splitlines(keepends=True)
    (at,) = [
        n for n, one in enumerate(lines) if '"type":"user"' in one and '"content":"second"' in one
    ]
    lines[at] = "x" * 40 + "\n"
    file.write_text("".join(lines), "utf-8")
    done = clew(tmp_path, server.url, "-p", "third", "--continue")
    assert done.returncode == 0
    assert done.stderr == (
        f"clew: part of this conversation is missing before line {at + 2} of its transcript; "
        f"for details, run clew sessions check {file.stem}\n"
    )
    checked = clew(tmp_path, server.url, "sessions", "check", file.stem)
    assert "C01" in checked.stdout


@pytest.mark.parametrize("name", ["nothing", "nothing.jsonl", SESSION])
def test_what_is_no_session_is_said_in_one_line(
    tmp_path: Path, server: LoopbackServer, name: str
) -> None:
    done = clew(tmp_path, server.url, "-p", "on", "--resume", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("clew: ")
    assert done.stderr.count("\n") == 1
    assert not transcripts(tmp_path)


def test_a_search_finds_what_was_said_and_not_what_clew_reminds_the_model_of(
    tmp_path: Path, server: LoopbackServer
) -> None:
    agents = tmp_path / "config" / "agents"
    agents.mkdir(parents=True)
    kind = "---\nname: weaver\ndescription: mends tapestries\n---\nWeave.\n"
    (agents / "weaver.md").write_text(kind, "utf-8")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("a heron by the loom\n", "utf-8")
    done = clew(tmp_path, server.url, "-p", "What of @notes.txt?", "--session-id", SESSION)
    assert done.returncode == 0, done.stderr
    (path,) = transcripts(tmp_path)
    assert b"mends tapestries" in path.read_bytes()
    for how in ([], ["--no-index"]):
        listing = clew(tmp_path, server.url, "sessions", "search", "tapestries", *how)
        assert (listing.returncode, listing.stdout) == (1, "no matches\n")
        brought = clew(tmp_path, server.url, "sessions", "search", "heron", *how)
        assert "a heron by the loom" in brought.stdout


@pytest.mark.parametrize("name", ["list", "show"])
def test_lists_show_joined_emoji_and_words_and_no_direction_marks(
    tmp_path: Path, server: LoopbackServer, name: str
) -> None:
    """B8: what joins an emoji or a Persian word is not a control character."""
    family, word = "👩\u200d👩\u200d👧", "می\u200cخواهم"
    clew(tmp_path, server.url, "-p", f"{family} {word} a\u202eb c\u200dd", "--session-id", SESSION)
    subject = () if name == "list" else (SESSION,)
    shown = clew(tmp_path, server.url, "sessions", name, *subject).stdout
    assert f"{family} {word} a\ufffdb c\ufffdd" in shown
