"""A host with a copy of the transcript continues from an earlier message, with the real process."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, uses
from tests.fronts.headless.clew_process import clew, command, environment, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_agents import agent_files

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
ANY: dict[str, Any] = {"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}
STREAMED = ("--output-format", "stream-json", "--verbose")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def said(server: Any) -> list[str]:
    """Return the prompts and responses in the last request."""
    blocks = [b for m in server.requests[-1].body["messages"] for b in m["content"]]
    texts = (b if isinstance(b, str) else b.get("text", "") for b in blocks)
    return [text for text in texts if text in ("one", "two", "three", "Fine.", "else")]


def two_turns(home: Path, url: str) -> tuple[Path, list[dict[str, Any]]]:
    clew(home, url, "-p", "one", "--session-id", SESSION)
    clew(home, url, "-p", "two", "--resume", SESSION)
    (path,) = transcripts(home)
    return path, [e for e in lines(path) if e["type"] in ("user", "assistant")]


def test_a_session_goes_on_after_an_earlier_message_and_stays_there(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        path, (_, first, *_) = two_turns(tmp_path, server.url)
        before = path.read_bytes()
        at = ("--resume", SESSION, "--resume-session-at", first["uuid"])
        done = clew(tmp_path, server.url, "-p", "else", *at)
        assert (done.returncode, done.stderr) == (0, "")
        assert said(server) == ["one", "Fine.", "else"]
        assert path.read_bytes().startswith(before)
        clew(tmp_path, server.url, "-p", "three", "--resume", SESSION)
        assert said(server) == ["one", "Fine.", "else", "Fine.", "three"]


def test_a_copy_begins_with_what_came_before_the_place(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        path, (_, first, *_) = two_turns(tmp_path, server.url)
        before = path.read_bytes()
        at = ("--resume", SESSION, "--fork-session", "--resume-session-at", first["uuid"])
        clew(tmp_path, server.url, "-p", "else", *at)
        assert said(server) == ["one", "Fine.", "else"]
    assert path.read_bytes() == before
    assert len(transcripts(tmp_path)) == 2


def test_a_turn_is_dropped_only_if_nothing_else_is(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        path, (prompt, first, other, _) = two_turns(tmp_path, server.url)
        before = path.read_bytes()
        at = ("--resume", SESSION, "--resume-session-at", first["uuid"], "--resume-drops-turn")
        with Hosted(tmp_path, server.url, *at, prompt["uuid"]) as host:
            host.say("else")
            result = host.result()
            assert host.end() == 1
        assert result["errors"][0].startswith("Resume rejected by --resume-drops-turn:")
        assert path.read_bytes() == before
        with Hosted(tmp_path, server.url, *at, other["uuid"]) as host:
            host.say("else")
            assert host.result()["subtype"] == "success"
            assert host.end() == 0
        assert said(server) == ["one", "Fine.", "else"]


def test_a_place_that_is_not_there_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        path, _ = two_turns(tmp_path, server.url)
        before = path.read_bytes()
        at = ("--resume", SESSION, "--resume-session-at", "nowhere")
        done = clew(tmp_path, server.url, "-p", "else", *at)
    assert (done.returncode, path.read_bytes()) == (1, before)
    assert "--resume-session-at nowhere: message not found" in done.stderr


def mirrored(frames: list[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    told = [f for f in frames if f["type"] == "transcript_mirror"]
    assert {f["filePath"] for f in told} == {str(path)}
    return [entry for frame in told for entry in frame["entries"]]


def test_a_host_is_told_every_line_before_the_result_of_its_turn(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            {"content": ["I look.", {"tool": "Bash", "input": {"command": "ls"}}]},
            {"text": "done " + "x" * 400_000},
        ],
    }
    with serving(plan, strict=True) as server:
        with Hosted(tmp_path, server.url, "--session-mirror") as host:
            host.say("go")
            host.result()
            (path,) = transcripts(tmp_path)
            seen = mirrored(host.frames, path)
            assert seen[-1]["type"] == "last-prompt"
            assert host.end() == 0
        assert mirrored(host.frames, path) == lines(path)


def test_what_a_line_cannot_carry_whole_is_shortened_so_that_the_copy_continues(
    tmp_path: Path,
) -> None:
    picture = {"type": "base64", "media_type": "image/png", "data": "QUJD" * 300_000}
    prompt = [{"type": "image", "source": picture}, {"type": "text", "text": "what is it"}]
    plan = {"scenario": 1, "answers": [{"text": "x" * 1_200_000}, {"text": "Fine."}]}
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--session-mirror") as host,
    ):
        host.say("y" * 900_000)
        host.result()
        host.say(prompt)
        host.result()
        assert host.end() == 0
        errors = host.errors()
    (path,) = transcripts(tmp_path)
    told = [f for f in host.frames if f["type"] == "transcript_mirror"]
    assert all(len(json.dumps(f)) < 1_048_576 for f in told)
    seen, wanted = mirrored(host.frames, path), lines(path)
    assert [e.get("uuid") for e in seen] == [e.get("uuid") for e in wanted]
    other = [(s, w) for s, w in zip(seen, wanted, strict=True) if s != w]
    named = [uuid for f in told for uuid in f.get("shortened", ())]
    assert named == [s["uuid"] for s, _ in other]
    assert errors.count("exceeds the protocol's line limit") == len(named) == 2
    (answer, _), (asked, _) = other
    assert "characters omitted" in answer["message"]["content"][0]["text"]
    words = {"type": "text", "text": "[image: 1200000 characters omitted]"}
    assert asked["message"]["content"] == [words, prompt[1]]


def test_a_subagents_copy_begins_with_what_it_is(tmp_path: Path) -> None:
    asked = {
        "go": [uses(agent("dig", run_in_background=False)), {"text": "sent"}],
        "dig": [{"text": "done"}],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url, "--session-mirror") as host,
    ):
        host.say("go")
        host.result()
        assert host.end() == 0
    (path,) = agent_files(tmp_path)
    told = [f for f in host.frames if f["type"] == "transcript_mirror"]
    entries = [e for f in told if f["filePath"] == str(path) for e in f["entries"]]
    described = [e for e in entries if e["type"] == "agent_metadata"]
    assert entries[0] == described[0]
    assert [e for e in entries if e["type"] != "agent_metadata"] == lines(path)
    beside = json.loads(path.with_suffix(".meta.json").read_bytes())
    assert described[-1] == {"type": "agent_metadata"} | beside
    assert described == [e for n, e in enumerate(described) if e not in described[:n]]


def test_a_copy_is_mirrored_from_its_first_line(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        first, _ = two_turns(tmp_path, server.url)
        more = ("--session-mirror", "--resume", SESSION, "--fork-session")
        done = clew(tmp_path, server.url, "-p", "three", *more, *STREAMED)
    (path,) = {*transcripts(tmp_path)} - {first}
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert mirrored(frames, path) == lines(path)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--session-mirror",), "--session-mirror requires --output-format stream-json"),
        ((*STREAMED, "--session-mirror", "--no-session-persistence"), "combined"),
        (("--resume-session-at", "x"), "requires a session"),
        (("--resume", "x", "--resume-drops-turn", "y"), "requires --resume-session-at"),
    ],
)
def test_flags_that_need_another_say_so(tmp_path: Path, args: tuple[str, ...], why: str) -> None:
    done = clew(tmp_path, "http://127.0.0.1:9", "-p", "hi", *args)
    code = 1 if "stream-json" in args else 2
    assert (done.returncode, done.stdout) == (code, "")
    assert why in done.stderr


def test_sessions_of_another_worktree_are_found_by_id_and_by_title(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    git = ("git", "-c", "user.name=n", "-c", "user.email=e@example.com")
    for words in (
        ("init", "-q"),
        ("commit", "-q", "--allow-empty", "-m", "first"),
        ("worktree", "add", "-q", str(other)),
    ):
        subprocess.run([*git, *words], cwd=work, check=True)
    with serving(ANY, strict=True) as server:
        clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION, "--name", "Weaving")
        for name in (SESSION, "Weaving"):
            done = subprocess.run(
                command("-p", "two", "--resume", name),
                cwd=other,
                env=environment(tmp_path, server.url),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert said(server)[:2] == ["one", "Fine."]
    assert len(transcripts(tmp_path)) == 1
