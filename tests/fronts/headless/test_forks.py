"""A copy of a session has what its messages refer to.

Subagents, tasks, long outputs, numbered tasks.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.parts.agents.checkouts import IN_WORKTREE
from clew.parts.agents.past import CUT_OFF
from clew.parts.past_commands import COPIED, ENDED_WITH_CLEW
from clew.parts.resuming import LOST
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, results, uses
from tests.fronts.headless.clew_process import clew, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_agents import agent_files, endless, heard, lines
from tests.fronts.headless.test_agents_kept import WRITES, in_a_checkout, repository
from tests.fronts.headless.test_kept import in_background, told, waits
from tests.fronts.headless.test_mail import killed, tells
from tests.requirements import requirement

Json: TypeAlias = dict[str, Any]
NOWHERE = "http://127.0.0.1:1"
OTHER = "77777777-0000-4000-8000-000000000001"
LONG = {"tool": "Bash", "input": {"command": "seq 1 20000; echo the end"}}


def goes_on(name: str) -> dict[str, list[Any]]:
    """Continue the agent with this name; the answer says whether it remembers its text."""
    return {
        "on": [tells(name, "deeper"), {"text": "sent"}],
        "deeper": [heard("gold")],
        "<task-notification>": [lambda body: {"text": str("gold: True" in told(body))}],
    }


def copy_by_flag(home: Path, session: Path) -> None:
    with serving(by_prompt({"hello": [{"text": "hello"}]}), strict=True) as server:
        done = clew(home, server.url, "-p", "-r", session.stem, "--fork-session", "hello")
        assert done.returncode == 0, done.stderr


def copy_by_word(home: Path, session: Path) -> None:
    done = clew(home, NOWHERE, "sessions", "fork", session.stem)
    assert " with 2 subagents, " in done.stdout, done


def copy_by_command(home: Path, session: Path) -> None:
    with (
        serving(by_prompt({"hello": [{"text": "hello"}]}), strict=True) as server,
        Hosted(home, server.url, "--resume", session.stem) as host,
    ):
        host.say("/fork")
        host.result()
        host.say("hello")
        assert host.result()["result"] == "hello"
        host.end()


def begun(home: Path) -> Path:
    """A session whose agent started another, with a numbered task and a result that is too long."""
    task = {"tool": "TaskCreate", "input": {"subject": "Dig here", "description": "deep"}}
    plan = {
        "go": [uses(agent("dig", name="mole"), task, LONG), {"text": "done"}],
        "dig": [uses(agent("hold the lamp")), {"text": "gold"}],
        "hold": [{"text": "bright"}],
    }
    with serving(by_prompt(plan), strict=True) as server:
        done = clew(home, server.url, "-p", "--allowedTools=Bash", "go")
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    (session,) = transcripts(home)
    return session


def of(session: Path) -> list[Path]:
    return sorted((session.with_suffix("") / "subagents").glob("agent-*.jsonl"))


def all_of(session: Path) -> dict[Path, bytes]:
    """Every file of a session."""
    below = [path for path in session.with_suffix("").rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in (session, *below)}


@requirement("R172", "R199", "R203")
@pytest.mark.parametrize("how", [copy_by_flag, copy_by_word, copy_by_command])
def test_a_copy_has_the_agents_tasks_and_outputs_that_its_messages_speak_of(
    how: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    session = begun(tmp_path)
    before = all_of(session)
    how(tmp_path, session)
    (copy,) = set(transcripts(tmp_path)) - {session}
    assert [path.name for path in of(copy)] == [path.name for path in of(session)]
    for own in of(copy):
        assert {line["sessionId"] for line in lines(own)} == {copy.stem}
    assert lines(copy)[0]["forkedFrom"]["sessionId"] == session.stem
    (output,) = (session.with_suffix("") / "tool-results").iterdir()
    own_output = copy.with_suffix("") / "tool-results" / output.name
    assert own_output.read_bytes() == output.read_bytes()
    # Both sessions have one file, which takes its space once.
    assert own_output.samefile(output)
    looks = [
        {"tool": "TaskList", "input": {}},
        {"tool": "Read", "input": {"file_path": str(output), "limit": 1}},
    ]
    plan = {**goes_on("mole"), "look": [uses(*looks), {"text": "seen"}]}
    with serving(by_prompt(plan), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "-r", copy.stem, "on")
        assert ran.stdout == "sent\n\nTrue\n", ran.stderr
        ran = clew(tmp_path, server.url, "-p", "-r", copy.stem, "look")
        assert ran.stdout == "seen\n", ran.stderr
        tasks, read = results(server.requests[-1].body)
    assert "Dig here" in tasks
    assert "1\t1" in read
    # The command was said in the session itself.
    now = all_of(session)
    assert now.pop(session).startswith(before.pop(session))
    assert now == before


@requirement("R172")
def test_a_copy_up_to_a_message_has_what_was_spoken_of_until_then(tmp_path: Path) -> None:
    session = begun(tmp_path)
    plan: dict[str, list[Any]] = {
        "more": [uses(agent("paint", name="painter")), {"text": "painted"}],
        "paint": [{"text": "blue"}],
    }
    (first,) = [e["uuid"] for e in lines(session) if "'done'" in str(e.get("message"))]
    with serving(by_prompt(plan), strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "-r", session.stem, "more").returncode == 0
    assert len(of(session)) == 3
    (prompt,) = [e["uuid"] for e in lines(session) if e.get("message", {}).get("content") == "go"]
    for until_then, many in ((prompt, 0), (first, 2)):
        done = clew(tmp_path, NOWHERE, "sessions", "fork", session.stem, until_then, "--json")
        copy = Path(json.loads(done.stdout)["path"])
        assert (json.loads(done.stdout)["agents"], len(of(copy))) == (many, many)
    at = ("--fork-session", "--resume-session-at", first)
    with serving(by_prompt(goes_on("mole")), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "-r", session.stem, *at, "on")
        assert ran.stdout == "sent\n\nTrue\n", ran.stderr
        newest = max(transcripts(tmp_path), key=lambda path: path.stat().st_mtime_ns)
        assert len(of(newest)) == 2
        ran = clew(tmp_path, server.url, "-p", "-r", newest.stem, "on")
        assert ran.stdout == "sent\n\nTrue\n", ran.stderr


@requirement("R172")
def test_a_graft_brings_the_agents_of_its_part_and_leaves_those_that_are_there(
    tmp_path: Path,
) -> None:
    source = begun(tmp_path)
    with serving(by_prompt({"hello": [{"text": "hello"}]}), strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "hello").returncode == 0
    (target,) = set(transcripts(tmp_path)) - {source}
    before = all_of(source)
    (first,) = [e["uuid"] for e in lines(source) if e.get("message", {}).get("content") == "go"]
    done = clew(tmp_path, NOWHERE, "sessions", "graft", target.stem, source.stem, first)
    assert " with 2 subagents from " in done.stdout, done
    (output,) = (source.with_suffix("") / "tool-results").iterdir()
    look = uses({"tool": "Read", "input": {"file_path": str(output), "limit": 1}})
    plan = {**goes_on("mole"), "look": [look, {"text": "seen"}]}
    with serving(by_prompt(plan), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "-r", target.stem, "on")
        assert ran.stdout == "sent\n\nTrue\n", ran.stderr
        ran = clew(tmp_path, server.url, "-p", "-r", target.stem, "look")
        assert "1\t1" in results(server.requests[-1].body)[0]
    assert all_of(source) == before


def test_a_graft_leaves_an_agent_that_is_there_as_it_is(tmp_path: Path) -> None:
    source = begun(tmp_path)
    clew(tmp_path, NOWHERE, "sessions", "fork", source.stem)
    (copy,) = set(transcripts(tmp_path)) - {source}
    kept = {path: path.read_bytes() for path in of(copy)}
    with serving(by_prompt(goes_on("mole")), strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "-r", source.stem, "on").stdout == "sent\n\nTrue\n"
    (first,) = [e["uuid"] for e in lines(source) if e.get("message", {}).get("content") == "on"]
    done = clew(tmp_path, NOWHERE, "sessions", "graft", copy.stem, source.stem, first, "--json")
    assert json.loads(done.stdout)["agents"] == 0, done
    assert {path: path.read_bytes() for path in of(copy)} == kept


@requirement("R172")
def test_what_still_works_in_the_original_is_the_originals_and_said_to_be(tmp_path: Path) -> None:
    calls = [agent("dig", run_in_background=True, name="mole"), in_background(waits("a"))]
    plan = {
        "go": [uses(*calls), {"text": "begun"}],
        "dig": [{"content": ["gold", {"tool": "LS", "input": {"path": "."}}]}, endless("dig")],
        "and you": [{"text": "I am the original"}],
    }
    with (
        serving(by_prompt(plan), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools=Bash,LS") as host,
    ):
        host.say("go")
        host.result()
        until(lambda: any("gold" in path.read_text("utf-8") for path in agent_files(tmp_path)))
        (session,) = transcripts(tmp_path)
        then = {"hello": [{"text": "hello"}], **goes_on("mole")}
        with serving(by_prompt(then), strict=True) as other:
            ran = clew(tmp_path, other.url, "-p", "-r", session.stem, "--fork-session", "hello")
            assert ran.stdout == "hello\n", ran.stderr
            assert (
                "1 subagent was running when this copy was made, but not in the copy" in ran.stderr
            )
            said = told(other.requests[0].body)
            assert f"it was working in session {session.stem} when this copy" in said
            assert COPIED.format(session.stem) in said
            assert CUT_OFF not in said
            assert ENDED_WITH_CLEW not in said
            (copy,) = set(transcripts(tmp_path)) - {session}
            ran = clew(tmp_path, other.url, "-p", "-r", copy.stem, "on")
            assert (ran.stdout, ran.stderr) == ("sent\n\nTrue\n", "")
            assert told(other.requests[1].body).count("it was working in session") == 1
        host.say("and you")
        assert host.result()["result"] == "I am the original"
        killed(host)


def test_a_checkout_that_two_agents_work_in_is_not_taken_away_by_the_copys(tmp_path: Path) -> None:
    work = repository(tmp_path)
    assert IN_WORKTREE in in_a_checkout(tmp_path, uses(WRITES))
    (tree,) = (work / ".claude" / "worktrees").glob("agent-*")
    (session,) = transcripts(tmp_path)
    clew(tmp_path, NOWHERE, "sessions", "fork", session.stem)
    (copy,) = set(transcripts(tmp_path)) - {session}
    plan = {
        "on": [tells(tree.name.removeprefix("agent-"), "undo it"), {"text": "sent"}],
        "undo it": [uses({"tool": "Bash", "input": {"command": "rm new.txt"}}), {"text": "undone"}],
        "<task-notification>": [lambda body: {"text": str(session.stem in told(body))}],
    }
    for _ in range(2):
        (tree / "new.txt").touch()
        with serving(by_prompt(plan), strict=True) as server:
            allowed = ("-p", "--allowedTools=Bash", "-r", copy.stem, "on")
            assert clew(tmp_path, server.url, *allowed).stdout == "sent\n\nTrue\n"
        assert tree.is_dir()
        assert not (tree / "new.txt").exists()


def test_a_host_is_told_every_line_of_the_agents_of_a_copy(tmp_path: Path) -> None:
    session = begun(tmp_path)
    more = ("--session-mirror", "--output-format", "stream-json", "--verbose", "--fork-session")
    with serving(by_prompt({"hello": [{"text": "hello"}]}), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "-r", session.stem, *more, "hello")
    (copy,) = set(transcripts(tmp_path)) - {session}
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    for path in of(copy):
        found = [frame for frame in frames if frame.get("filePath") == str(path)]
        first, *entries = [entry for frame in found for entry in frame["entries"]]
        said = json.loads(path.with_suffix(".meta.json").read_bytes())
        assert first == {"type": "agent_metadata", **said}
        assert entries == lines(path)


def test_a_copy_whose_agents_have_no_place_says_so_and_continues(tmp_path: Path) -> None:
    session = begun(tmp_path)
    session.with_name(OTHER).write_text("no folder", "utf-8")
    new = ("--fork-session", "--session-id", OTHER)
    answers = {"on": [tells("mole", "deeper"), lambda body: {"text": results(body)[0]}]}
    with serving(by_prompt(answers), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "-r", session.stem, *new, "on")
    assert LOST.format(session=session.stem, why="") in ran.stderr
    assert "not found in this session" in ran.stdout
    done = clew(tmp_path, NOWHERE, "sessions", "fork", session.stem)
    assert done.returncode == 0, done.stderr


def test_a_copy_whose_agents_cannot_be_read_is_not_made_or_has_none(tmp_path: Path) -> None:
    session = begun(tmp_path)
    (session.with_suffix("") / "subagents" / "agent-zz.jsonl").mkdir()
    before = sorted(session.parent.iterdir())
    done = clew(tmp_path, NOWHERE, "sessions", "fork", session.stem)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Is a directory" in done.stderr
    assert sorted(session.parent.iterdir()) == before
    with serving(by_prompt({"hello": [{"text": "hello"}]}), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "-r", session.stem, "--fork-session", "hello")
    assert ran.stdout == "hello\n"
    assert "could not be copied completely: " in ran.stderr
    (copy,) = set(session.parent.iterdir()) - set(before)
    assert copy.suffix == ".jsonl"
