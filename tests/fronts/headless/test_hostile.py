"""Sessions that were tampered with: resumed anyway or refused in one line, and never stuck."""

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from clew.testing.server import RecordedRequest, serving
from tests.fronts.headless.clew_process import clew, command, environment, transcripts
from tests.fronts.headless.forked import Forked
from tests.fronts.headless.host_process import BASE
from tests.requirements import requirement

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"


@pytest.fixture(autouse=True)
def own_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return a session of the test's own, because recovery files are outside its home."""
    monkeypatch.setattr(sys.modules[__name__], "SESSION", str(uuid4()))


ANY: dict[str, Any] = {"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}


def typed(body: dict[str, Any]) -> list[str]:
    blocks = [b for m in body["messages"] if m["role"] == "user" for b in m["content"]]
    texts = [b["text"] for b in blocks if b["type"] == "text"]
    return [text for text in texts if not text.startswith("<")]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_linked_transcript_is_written_where_it_lies(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION)
        (path,) = transcripts(tmp_path)
        real = tmp_path / "elsewhere.jsonl"
        path.rename(real)
        path.symlink_to(real)
        two = clew(tmp_path, server.url, "-p", "two", "-c")
        assert (two.returncode, two.stderr) == (0, "")
        clew(tmp_path, server.url, "-p", "three", "-c")
        assert typed(server.requests[-1].body) == ["one", "two", "three"]
    assert path.is_symlink()


@pytest.mark.parametrize(
    "words", [("-p", "on", "-c"), ("sessions", "list"), ("sessions", "search", "one"), ("cost",)]
)
def test_a_pipe_among_the_sessions_is_none(tmp_path: Path, words: tuple[str, ...]) -> None:
    with serving(ANY, strict=True) as server:
        clew(tmp_path, server.url, "-p", "one")
        os.mkfifo(transcripts(tmp_path)[0].parent / f"{SESSION}.jsonl")
        assert clew(tmp_path, server.url, *words).returncode == 0


def test_one_id_in_two_spellings_is_one_session(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION.upper())
        again = clew(tmp_path, server.url, "-p", "two", "--session-id", SESSION)
        assert "this session already exists" in again.stderr
        clew(tmp_path, server.url, "-p", "two", "--resume", SESSION.upper())
        assert typed(server.requests[-1].body) == ["one", "two"]
        (path,) = transcripts(tmp_path)
        path.rename(path.with_name(f"{SESSION.upper()}.jsonl"))
        clew(tmp_path, server.url, "-p", "three", "--resume", SESSION)
        assert typed(server.requests[-1].body) == ["one", "two", "three"]


def test_a_block_that_the_service_does_not_know_is_refused_once(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION)
        (path,) = transcripts(tmp_path)
        entries = lines(path)
        for entry in entries:
            entry["novel"] = {"deep": 1}
            if entry["type"] == "assistant":
                entry["message"]["content"].append({"type": "vision", "data": {"n": 1}})
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
        refused = clew(tmp_path, server.url, "-p", "two", "--resume", SESSION)
        assert (refused.returncode, "'vision'" in refused.stdout) == (1, True)
        done = clew(tmp_path, server.url, "-p", "three", "--resume", SESSION)
        assert (done.returncode, done.stdout) == (0, "Fine.\n")
        assert "the model is not" not in done.stderr
        kinds = {b["type"] for m in server.requests[-1].body["messages"] for b in m["content"]}
    assert kinds == {"text"}


def together(home: Path, url: str, *args: str) -> list[subprocess.CompletedProcess[str]]:
    done: list[subprocess.CompletedProcess[str]] = []
    runs = [
        threading.Thread(target=lambda n=n: done.append(clew(home, url, "-p", f"p{n}", *args)))
        for n in range(3)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    return done


def test_of_several_that_begin_one_session_at_once_each_is_in_it_or_told(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        done = together(tmp_path, server.url, "--session-id", SESSION)
        done += together(tmp_path, server.url, "--resume", SESSION)
        clew(tmp_path, server.url, "-p", "last", "--resume", SESSION)
        well = [run for run in done if run.returncode == 0]
        assert len(typed(server.requests[-1].body)) == len(well) + 1
    for run in done:
        assert run.returncode == 0 or "exists" in run.stderr or " open" in run.stderr
    assert clew(tmp_path, server.url, "sessions", "check").returncode == 0


def test_a_clock_that_goes_backwards_changes_no_order(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION)
        (path,) = transcripts(tmp_path)
        path.write_text(
            path.read_text("utf-8").replace('"timestamp":"20', '"timestamp":"21'), "utf-8"
        )
        for prompt in ("two", "three"):
            clew(tmp_path, server.url, "-p", prompt, "-c")
        assert typed(server.requests[-1].body) == ["one", "two", "three"]


def test_times_that_no_calendar_holds_cost_no_search(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        clew(tmp_path, server.url, "-p", "a needle", "--session-id", SESSION)
        (path,) = transcripts(tmp_path)
        for seconds in (2**40, -(2**40)):
            os.utime(path, (seconds, seconds))
            found = clew(tmp_path, server.url, "sessions", "search", "needle")
            assert (found.returncode, found.stderr) == (0, "")
            assert SESSION[:8] in found.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("permissions", "add", "Bash(echo {}:*)"),
        ("config", "set", "env.NUMBER_{}", "x"),
        ("config", "trust", "/{}"),
        ("mcp", "add", "--scope", "local", "s{}", "true"),
        ("mcp", "add", "--scope", "project", "s{}", "true"),
    ],
    ids=["rules", "settings", "trust", "own servers", "project's servers"],
)
def test_what_many_write_at_once_is_all_written(tmp_path: Path, words: tuple[str, ...]) -> None:
    work = tmp_path / "work"
    work.mkdir()
    many = [
        Forked(
            [word.format(number) for word in words],
            cwd=work,
            env=environment(tmp_path, "http://127.0.0.1:1"),
            stdout=subprocess.DEVNULL,
        )
        for number in range(12)
    ]
    assert [one.wait(timeout=60) for one in many] == [0] * 12
    files = [*work.rglob("*.json"), *(tmp_path / "config").rglob("*.json")]
    written = "".join(path.read_text("utf-8") for path in files)
    (told,) = (word for word in words if "{}" in word)
    name = told.rpartition(".")[2]
    assert [number for number in range(12) if f'"{name.format(number)}"' not in written] == []


def test_two_spellings_of_a_folder_have_the_same_sessions(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        for name, prompt in (("Caf\u00e9", "one"), ("Cafe\u0301", "two")):
            (tmp_path / name).mkdir()
            subprocess.run(
                command("-p", prompt, "-c"),
                cwd=tmp_path / name,
                env=environment(tmp_path, server.url),
                stdin=subprocess.DEVNULL,
                check=True,
            )
        assert typed(server.requests[-1].body) == ["one", "two"]


def test_a_line_of_a_hundred_megabytes_is_a_line(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION)
        (path,) = transcripts(tmp_path)
        answer = next(e for e in lines(path) if e["type"] == "assistant")
        huge = {
            "type": "user",
            "uuid": "00000000-0000-4000-8000-000000000001",
            "parentUuid": answer["uuid"],
            "sessionId": SESSION,
            "message": {"role": "user", "content": "here"},
            "toolUseResult": "x" * (100 << 20),
        }
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(huge) + "\n")
        clew(tmp_path, server.url, "-p", "two", "-c")
        assert typed(server.requests[-1].body) == ["one", "here", "two"]


def test_on_a_full_disk_a_session_and_its_copy_continue_and_are_whole_later(tmp_path: Path) -> None:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))

    with serving(ANY, strict=True) as server:
        clew(tmp_path, server.url, "-p", "one" + "x" * 5000, "--session-id", SESSION)
        (path,) = transcripts(tmp_path)
        before = path.read_bytes()
        go_on = ("--resume", SESSION)
        two = clew(tmp_path, server.url, "-p", "two", *go_on, preexec_fn=full)
        copy = clew(tmp_path, server.url, "-p", "three", *go_on, "--fork-session", preexec_fn=full)
        for run in (two, copy):
            is_lost = "the data is lost" in run.stderr
            assert (run.returncode, run.stdout) == (int(is_lost), "Fine.\n")
            assert "not saved" in run.stderr
        assert "the data is lost" not in two.stderr
        assert typed(server.requests[-1].body)[1:] == ["two", "three"]
        assert path.read_bytes() == before
        last = clew(tmp_path, server.url, "-p", "four", *go_on)
        assert (last.returncode, last.stderr) == (0, "")
        assert typed(server.requests[-1].body)[1:] == ["two", "four"]


def test_a_home_that_takes_no_file_does_not_end_a_conversation(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("no folder", "utf-8")
    with serving(ANY, strict=True) as server:
        more: dict[str, Any] = {"input": ""}
        done = clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION, **more)
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    assert "not saved; a copy is in" in done.stderr


def test_where_no_folder_takes_a_byte_a_conversation_is_kept_in_memory_and_the_code_says_so(
    tmp_path: Path,
) -> None:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.json").write_text('{"sandbox": {"enabled": true}}', "utf-8")
    call = {"tool": "Bash", "input": {"command": "echo here"}}
    plan = {"scenario": 1, "answers": [{"content": [call]}, {"text": "Fine.", "times": "always"}]}
    with serving(plan, strict=True) as server:
        words = ("-p", "one", "--session-id", SESSION, "--allowed-tools", "Bash")
        done = clew(tmp_path, server.url, *words, preexec_fn=full)
        (result,) = server.requests[-1].body["messages"][-1]["content"]
        streamed = clew(
            tmp_path, server.url, *words[:2], *BASE[:3], "--allowed-tools", "Bash", preexec_fn=full
        )
        listed = clew(tmp_path, server.url, "sessions", "list", preexec_fn=full)
        seen = clew(tmp_path, server.url, "doctor", "--offline", preexec_fn=full)
    # The answer is there, but nothing of it will be.
    assert (done.returncode, done.stdout) == (1, "Fine.\n"), done.stderr
    assert "not saved; kept in memory only" in done.stderr
    assert "the data is lost" in done.stderr
    assert streamed.returncode == 1
    assert json.loads(streamed.stdout.splitlines()[-1])["result"] == "Fine."
    assert "so no command will run: can't create a temporary folder" in done.stderr
    assert result["is_error"]
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "can't create a temporary folder" in seen.stdout


@pytest.mark.parametrize("gone", ["projects", ""], ids=["the transcripts", "the whole home"])
def test_what_is_taken_away_while_a_turn_runs_is_made_again_with_all_of_it(
    tmp_path: Path, gone: str
) -> None:
    requests: list[RecordedRequest] = []

    def take_away(request: RecordedRequest) -> None:
        requests.append(request)
        if len(requests) == 2:
            shutil.rmtree(tmp_path / "config" / gone)

    call = {"tool": "Bash", "input": {"command": "echo made"}}
    plan = {
        "scenario": 1,
        "answers": [{"content": [call]}, {"content": [call]}, {"text": "Gone.", "times": "always"}],
    }
    with serving(plan, strict=True, on_request=take_away) as server:
        free = ("--allowed-tools", "Bash")
        done = clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION, *free)
        assert (done.returncode, done.stdout, done.stderr) == (0, "Gone.\n", "")
        (path,) = transcripts(tmp_path)
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        again = clew(tmp_path, server.url, "-p", "two", "--resume", SESSION)
    assert (again.returncode, again.stdout) == (0, "Gone.\n"), again.stderr
    assert typed(requests[-1].body) == ["one", "two"]
    told = json.dumps(requests[-1].body["messages"])
    assert told.count('"type": "tool_use"') == told.count('"type": "tool_result"') == 2


def marked(body: dict[str, Any]) -> list[tuple[str, int, int]]:
    found = [("system", 0, place) for place, b in enumerate(body["system"]) if "cache_control" in b]
    found += [("tools", 0, place) for place, t in enumerate(body["tools"]) if "cache_control" in t]
    for number, message in enumerate(body["messages"]):
        blocks = enumerate(message["content"])
        found += [("messages", number, place) for place, b in blocks if "cache_control" in b]
    return found


@requirement("V9")
def test_marks_stand_on_the_system_and_on_the_last_block_of_every_request(tmp_path: Path) -> None:
    call = {"tool": "Bash", "input": {"command": "ls"}}
    plan = {"scenario": 1, "answers": [{"content": [call, call]}, *ANY["answers"]]}
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION)
        clew(tmp_path, server.url, "-p", "two", "--resume", SESSION)
        clew(tmp_path, server.url, "-p", "three", "--resume", SESSION, "--fork-session")
        bodies = [request.body for request in server.requests]
    assert len(bodies) == 4
    for body in bodies:
        systems = len(body["system"])
        last = len(body["messages"]) - 1
        assert marked(body) == [
            *(("system", 0, place) for place in range(max(0, systems - 2), systems)),
            ("messages", last, len(body["messages"][last]["content"]) - 1),
        ]


def test_thinking_blocks_whose_words_stay_with_the_service_go_back_as_they_came(
    tmp_path: Path,
) -> None:
    silent = {"content": [{"thinking": "", "signature": "sig-of-a-thought"}, "Fine."]}
    plan = {"scenario": 1, "answers": [silent, *ANY["answers"]]}
    with serving(plan, strict=True) as server:
        omitted = ("--thinking-display", "omitted")
        clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION, *omitted)
        done = clew(tmp_path, server.url, "-p", "two", "--resume", SESSION, *omitted)
        body = server.requests[-1].body
    assert (done.returncode, done.stderr) == (0, "")
    assert body["thinking"]["display"] == "omitted"
    (answer,) = [m for m in body["messages"] if m["role"] == "assistant"]
    assert answer["content"][0] == {
        "type": "thinking",
        "thinking": "",
        "signature": "sig-of-a-thought",
    }


def test_a_session_continues_with_another_family_and_back_and_the_log_loses_nothing(
    tmp_path: Path,
) -> None:
    thought = {
        "content": [
            {"thinking": "Hm.", "signature": "sig"},
            "I look.",
            {"tool": "Bash", "input": {"command": "ls"}},
        ]
    }
    plan = {"scenario": 1, "answers": [thought, *ANY["answers"]]}
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "one", "--session-id", SESSION)
        first = server.requests[-1].body["messages"]
        (path,) = transcripts(tmp_path)
        before = path.read_bytes()
        go_on = ("--resume", SESSION, "--model")
        other = clew(tmp_path, server.url, "-p", "two", *go_on, "claude-3-5-haiku-20241022")
        assert (other.returncode, other.stdout) == (0, "Fine.\n")
        back = clew(tmp_path, server.url, "-p", "three", *go_on, "claude-sonnet-5-5")
        assert back.returncode == 0
        said = server.requests[-1].body["messages"]
    assert path.read_bytes().startswith(before)
    assert [unmarked(m) for m in said[: len(first)]] == [unmarked(m) for m in first]


def unmarked(message: dict[str, Any]) -> dict[str, Any]:
    blocks = [{k: v for k, v in b.items() if k != "cache_control"} for b in message["content"]]
    return message | {"content": blocks}
