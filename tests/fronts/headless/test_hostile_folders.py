"""Malicious folders, files and streams cost a line on standard error, not the session."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, command, environment
from tests.requirements import requirement

ANY: dict[str, Any] = {"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}
STARS = "*a" * 15 + "*b"
LONG = "a" * 60
# Twice itself, twenty times: whoever writes that down whole writes a million patterns.
BOMB = "{a,b}" * 20


def calls(tool: str, **given: Any) -> dict[str, Any]:
    return {
        "scenario": 1,
        "answers": [{"content": [{"tool": tool, "input": given}]}, *ANY["answers"]],
    }


def wild_ignore_file(work: Path) -> None:
    (work / ".gitignore").write_text(f"{STARS}\n", "utf-8")


def wild_rule_file(work: Path) -> None:
    rules = work / ".claude" / "rules"
    rules.mkdir(parents=True)
    (rules / "one.md").write_text(f"---\npaths: ['{STARS}']\n---\nBe brief.\n", "utf-8")


def wild_deny_rules(work: Path) -> None:
    deny(work, f"Bash({STARS})", f"Read({STARS})")


def flood_of_braces(work: Path) -> None:
    deny(work, f"Read({BOMB})")


def deny(work: Path, *rules: str) -> None:
    (work / ".claude").mkdir()
    said = {"permissions": {"deny": rules}}
    (work / ".claude" / "settings.json").write_text(json.dumps(said), "utf-8")


@pytest.mark.parametrize(
    ("prepare", "tool", "given"),
    [
        (wild_ignore_file, "Bash", {"command": "echo > made"}),
        (wild_rule_file, "Read", {"file_path": LONG}),
        (wild_deny_rules, "Bash", {"command": f"echo {LONG}"}),
        (wild_deny_rules, "Read", {"file_path": LONG}),
        (flood_of_braces, "Read", {"file_path": LONG}),
    ],
)
def test_patterns_of_many_stars_hang_nothing(
    tmp_path: Path, prepare: Callable[[Path], None], tool: str, given: dict[str, str]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / LONG).write_text("here", "utf-8")
    prepare(work)
    with serving(calls(tool, **given), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash,Read")
        assert (done.returncode, done.stdout) == (0, "Fine.\n")
        (result,) = server.requests[-1].body["messages"][-1]["content"]
        # A rule that denies and cannot be read makes every call ask: nobody is there to be asked.
        cannot_be_read = "more than 64 patterns" in str(result["content"])
        assert bool(result.get("is_error")) is cannot_be_read is (prepare is flood_of_braces)


@pytest.mark.parametrize(
    "given", [("Glob", {"pattern": BOMB}), ("Grep", {"pattern": "x", "glob": BOMB})]
)
def test_a_pattern_that_stands_for_a_million_names_is_refused(
    tmp_path: Path, given: tuple[str, dict[str, str]]
) -> None:
    with serving(calls(given[0], **given[1]), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go")
        assert (done.returncode, done.stdout) == (0, "Fine.\n")
        (result,) = server.requests[-1].body["messages"][-1]["content"]
    assert "expands to more than" in result["content"]


def test_settings_with_thousands_of_faults_begin_a_session_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "work" / ".claude").mkdir(parents=True)
    said = {"permissions": {"deny": [7] * 20_000}} | {f"key{n}": n for n in range(20_000)}
    (tmp_path / "work" / ".claude" / "settings.json").write_text(json.dumps(said), "utf-8")
    with serving(ANY, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go")
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    assert 2 < len(done.stderr.splitlines()) < 100
    assert "more; run clew config list" in done.stderr


def test_thousands_of_rules_are_listed_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    rules = [f"Bash(tool{n} *)" for n in range(10_000)]
    said = json.dumps({"permissions": {"allow": rules}}, indent=1)
    (tmp_path / "config" / "settings.json").write_text(said, "utf-8")
    done = clew(tmp_path, "", "permissions", "list")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == len(rules)
    assert done.stdout.splitlines()[-1].endswith("settings.json:10003")


def within(memory_kb: int, *args: str) -> list[str]:
    return ["bash", "-c", f'ulimit -v {memory_kb}; exec "$@"', "bash", *command(*args)]


def test_a_value_of_megabytes_is_found_in_little_memory(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    value = "x" * 30_000_000
    said = json.dumps({"env": {"LONG": value}})
    (tmp_path / "config" / "settings.json").write_text(said, "utf-8")
    done = subprocess.run(
        within(1_500_000, "config", "list"),
        cwd=tmp_path, env=environment(tmp_path, ""), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"settings.json:1)" in done.stdout


def test_an_instruction_file_may_name_what_is_no_name(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    words = f"@a\0b @{'x' * 5000} @{'y/' * 4000} @\x1b[31m"
    (tmp_path / "work" / "CLAUDE.md").write_text(words, "utf-8")
    with serving(ANY, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go")
        assert (done.returncode, done.stdout, done.stderr) == (0, "Fine.\n", "")
        assert clew(tmp_path, server.url, "memory", "explain").returncode == 0


def test_who_pipes_in_without_an_end_is_told_so(tmp_path: Path) -> None:
    with Path("/dev/zero").open("rb") as endless:
        done = subprocess.run(
            within(2_000_000, "-p", "go"),
            cwd=tmp_path, env=environment(tmp_path, ""), stdin=endless, capture_output=True,
            timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert b"the prompt exceeds 16,777,216 characters" in done.stderr


def test_a_closed_input_is_an_input_without_a_prompt(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", 'exec "$@" <&-', "bash", *command()],
        cwd=tmp_path, env=environment(tmp_path, ""), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert b"pass a prompt as an argument" in done.stderr


@pytest.mark.parametrize("words", [("-p", "go"), ("sessions", "list")])
def test_a_closed_input_says_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    with serving(ANY, strict=True) as server:
        done = subprocess.run(
            ["bash", "-c", 'exec "$@" <&-', "bash", *command(*words)],
            cwd=tmp_path, env=environment(tmp_path, server.url), capture_output=True, timeout=60,
            check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")


def counted(usage: dict[str, Any], stop: Any = "end_turn") -> dict[str, Any]:
    """An answer with token counts that no service reports."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    events = [
        {"type": "message_start", "message": message | {"usage": usage}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": "Odd."},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
        {"type": "message_stop"},
    ]
    return {"scenario": 1, "answers": [{"events": events}, *ANY["answers"]]}


@pytest.mark.parametrize("count", [2**63, 10**30, -(10**6)])
def test_a_count_that_is_none_ends_no_search_and_no_sum(tmp_path: Path, count: int) -> None:
    usage = {"input_tokens": count, "output_tokens": count}
    with serving(counted(usage), strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "go").stdout == "Odd.\n"
        again = clew(tmp_path, server.url, "-p", "again", "-c")
        assert (again.returncode, again.stdout) == (0, "Fine.\n")
        assert len(server.requests) == 2  # nothing had to be summarised
    for words in (("stats",), ("search", "Odd"), ("list",)):
        done = clew(tmp_path, "", "sessions", *words)
        assert (done.returncode, done.stderr) == (0, "")


@requirement("V10")
@pytest.mark.parametrize("stop", [["end_turn"], {"a": 1}, 7])
def test_a_reason_to_stop_that_is_no_word_is_unknown(tmp_path: Path, stop: Any) -> None:
    with serving(counted({"input_tokens": 1, "output_tokens": 1}, stop), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go")
        assert "Traceback" not in done.stderr
        again = clew(tmp_path, server.url, "-p", "again", "-c")
        assert (again.returncode, again.stdout) == (0, "Fine.\n")


# No chmod keeps root out: the system's calls say no for everything in the folders that are named.
LOCKS = """
import os

CLOSED = os.environ["CLOSED"].split(":")


def closing(call):
    def asked(path=".", *args, **more):
        if not isinstance(path, int) and os.fspath(path).startswith(tuple(f"{each}/" for each in CLOSED)):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return call(path, *args, **more)

    return asked


for name in ("stat", "lstat", "open", "scandir", "listdir"):
    setattr(os, name, closing(getattr(os, name)))
"""


@pytest.mark.parametrize("name", [".claude", ".clew", ".git"])
def test_a_folder_above_that_nobody_may_look_into_is_passed_by(tmp_path: Path, name: str) -> None:
    closed = tmp_path / name
    work = tmp_path / "work"
    for folder in (closed, tmp_path / "shim", work):
        folder.mkdir()
    (tmp_path / "shim" / "sitecustomize.py").write_text(LOCKS, "utf-8")
    with serving(ANY, strict=True) as server:
        done = subprocess.run(
            command("-p", "hi"),
            cwd=work,
            env=environment(tmp_path / "home", server.url)
            | {"CLOSED": str(closed), "PYTHONPATH": str(tmp_path / "shim")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            encoding="utf-8",
            timeout=60,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "Fine.\n", "")
