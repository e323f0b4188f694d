"""`clew -p` as a process.

The answer, the result, the exit code, and the files on disk afterward.
"""

import json
import os
import random
import select
import signal
import subprocess
from base64 import b64decode
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.agent.tools.pictures import pdf
from tests.fronts.headless.clew_process import clew, command, environment, transcripts, until
from tests.fronts.headless.forked import Forked
from tests.requirements import requirement

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)
HELLO = {"scenario": 1, "answers": [{"text": "Hello!", "times": "always"}]}


def scenario(*answers: dict[str, Any]) -> dict[str, Any]:
    return {"scenario": 1, "answers": list(answers)}


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_prompt_is_answered_on_standard_output(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "hi")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello!\n", "")


def test_the_json_result_names_the_session_and_how_it_ended(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "hi", "--output-format", "json")
    said = json.loads(done.stdout)
    assert said["type"] == "result"
    assert said["subtype"] == "success"
    assert said["is_error"] is False
    assert said["result"] == "Hello!"
    assert said["terminal_reason"] == "completed"
    assert transcripts(tmp_path)[0].stem == said["session_id"]


@pytest.mark.parametrize("words", [(), ("-",), ("--model", "sonnet"), ("-", "--max-turns", "5")])
def test_what_a_program_pipes_in_is_one_prompt_without_print_too(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Read line by line, its headings would be notes, and its exclamation marks commands."""
    text = "# Rules\n!touch made\nBe brief.\n"
    with serving(HELLO, strict=True) as server:
        done = clew(tmp_path, server.url, *words, input=text)
        (request,) = server.requests
    assert (done.returncode, done.stdout) == (0, "Hello!\n")
    assert request.body["messages"][0]["content"][0]["text"] == text.rstrip()
    assert not list((tmp_path / "work").iterdir())


def test_json_output_is_of_one_prompt_without_print_too(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        done = clew(tmp_path, server.url, "hi", "--output-format", "json")
    assert json.loads(done.stdout)["result"] == "Hello!"


def test_without_a_terminal_and_a_prompt_nothing_is_asked(tmp_path: Path) -> None:
    done = clew(tmp_path, "http://127.0.0.1:1")
    assert done.returncode == 2
    assert "no prompt: " in done.stderr


def test_what_is_piped_in_joins_the_prompt(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        clew(tmp_path, server.url, "-p", "explain", input="some text\n")
        (request,) = server.requests
    assert request.body["messages"][0]["content"][0]["text"] == "explain\nsome text"


def test_tools_run_and_their_results_go_back(tmp_path: Path) -> None:
    plan = scenario(
        {
            "content": [
                "I look.",
                {"tool": "Bash", "input": {"command": "echo one; echo two"}},
                {"tool": "Glob", "input": {"pattern": "*.txt"}},
            ]
        },
        {"when": {"tool_result": "Bash"}, "text": "Two lines and a file."},
    )
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("a", "utf-8")
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "look", "--allowedTools", "Bash(echo:*)")
        results = server.requests[1].body["messages"][-1]["content"]
    assert done.stdout == "Two lines and a file.\n"
    assert results[0]["content"] == "one\ntwo"
    assert "a.txt" in results[1]["content"]


@requirement("R001", "R063", "R147")
def test_the_log_the_wire_and_the_stream_hold_each_their_own_form(tmp_path: Path) -> None:
    plan = scenario(
        {
            "content": ["I look.", {"tool": "Bash", "input": {"command": "echo one"}}],
            "usage": {"input_tokens": 7, "output_tokens": 11},
        },
        {"when": {"tool_result": "Bash"}, "text": "One."},
    )
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "look", "--allowedTools", "Bash(echo:*)")
        sent = server.requests[1].body["messages"]
    assert {key for message in sent for key in message} == {"role", "content"}
    logged = entries(transcripts(tmp_path)[0])
    assert next(e for e in logged if e["type"] == "user")["permissionMode"] == "default"
    first = [e["message"] for e in logged if e["type"] == "assistant"][:2]
    assert [m["stop_reason"] for m in first] == ["tool_use", "tool_use"]
    assert [m["usage"]["output_tokens"] for m in first] == [11, 11]
    assert not [e for e in logged if e["type"] == "stream_event"]


def test_what_needs_a_user_is_refused_and_the_turn_continues(tmp_path: Path) -> None:
    plan = scenario(
        {"content": [{"tool": "Write", "input": {"file_path": "x.txt", "content": "x"}}]},
        {"when": {"tool_result": "Write"}, "text": "Not allowed."},
    )
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "write", "--output-format", "json")
    said = json.loads(done.stdout)
    assert done.returncode == 0
    (denial,) = said["permission_denials"]
    assert denial["tool_name"] == "Write"
    assert denial["tool_input"]["file_path"] == str(tmp_path / "work" / "x.txt")
    assert not (tmp_path / "work" / "x.txt").exists()


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
@pytest.mark.parametrize(
    ("output", "code", "words"),
    [("a reader who left", 0, ""), ("/dev/full", 1, "clew: No space left on device\n")],
)
def test_output_that_is_not_read_is_no_error_and_output_that_is_lost_is_one(
    tmp_path: Path, output_format: str, output: str, code: int, words: str
) -> None:
    if output == "/dev/full":
        end = os.open(output, os.O_WRONLY)
    else:
        reader, end = os.pipe()
        os.close(reader)
    work = tmp_path / "work"
    work.mkdir()
    with serving(HELLO) as server:
        flags = ("-p", "hi", "--verbose", "--output-format", output_format)
        done = subprocess.run(
            command(*flags),
            cwd=work, env=environment(tmp_path, server.url), stdin=subprocess.DEVNULL,
            stdout=end, stderr=subprocess.PIPE, encoding="utf-8", timeout=60, check=False,
        )  # fmt: skip
    os.close(end)
    assert (done.returncode, done.stderr) == (code, words)


def test_a_session_goes_on_by_id_by_newest_and_with_the_same_prefix(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        clew(tmp_path, server.url, "-p", "one")
        (path,) = transcripts(tmp_path)
        clew(tmp_path, server.url, "-p", "two", "--resume", path.stem)
        clew(tmp_path, server.url, "-p", "three", "--continue")
        bodies = [request.body for request in server.requests]
    assert transcripts(tmp_path) == [path]

    def plain(body: dict[str, Any]) -> list[Any]:
        text = json.dumps([body["tools"], body.get("system"), body["messages"]])
        tools, system, messages = json.loads(
            text.replace(', "cache_control": {"type": "ephemeral"}', "")
        )
        return [tools, system, *messages]

    for shorter, longer in pairwise(bodies):
        assert plain(longer)[: len(plain(shorter))] == plain(shorter)


@pytest.mark.parametrize("how", ["stream-json --verbose --include-partial-messages", "json"])
def test_no_frame_holds_a_character_that_rules_a_terminal(tmp_path: Path, how: str) -> None:
    text = "a\x9b31mb\u202ec\u2028d\x7fe\U000e0041f é 日本 👩‍🚀"
    plan = {"scenario": 1, "answers": [{"text": text, "times": "always"}]}
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "hi", "--output-format", *how.split())
    assert not set("\x9b\u202e\u2028\x7f\U000e0041") & set(done.stdout)
    assert "é 日本 👩‍🚀" in done.stdout
    frames = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert frames[-1]["result"] == text


def test_a_character_that_the_terminal_cannot_write_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with serving(scenario({"text": "Tür 🚪"}), strict=True) as server:
        done = subprocess.run(
            command("-p", "hi"),
            cwd=tmp_path / "work",
            env=environment(tmp_path, server.url) | {"PYTHONIOENCODING": "ascii"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, b"T\\xfcr \\U0001f6aa\n")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-p"], "no prompt: "),
        (["--modle", "x", "-p", "hi"], "did you mean --model?"),
        (["-p", "hi", "--max-turns", "0"], "at least 1"),
        (["-p", "hi", "-c", "--resume", "x"], "can't be combined"),
        (["-p", "hi", "--max-budget-usd", "0"], "amount in dollars"),
        (["-p", "hi", "--max-budget-usd", "a lot"], "amount in dollars"),
    ],
)
def test_a_call_that_cannot_be_followed_says_why(
    tmp_path: Path, args: list[str], words: str
) -> None:
    done = clew(tmp_path, "http://127.0.0.1:9", *args)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""


def test_an_unknown_session_is_an_error_that_helps(tmp_path: Path) -> None:
    done = clew(tmp_path, "http://127.0.0.1:9", "-p", "hi", "--resume", "no such title")
    assert done.returncode == 1
    assert "session 'no such title' not found" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_refused_request_is_an_error_result(tmp_path: Path) -> None:
    plan = scenario(
        {
            "status": 400,
            "error": {"type": "invalid_request_error", "message": "no good"},
            "times": "always",
        }
    )
    with serving(plan) as server:
        done = clew(tmp_path, server.url, "-p", "hi", "--output-format", "json")
    said = json.loads(done.stdout)
    assert done.returncode == 1
    assert said["is_error"] is True
    assert said["terminal_reason"] == "api_error"
    assert said["api_error_status"] == 400


@requirement("R256", "R069", "R084")
def test_an_interrupt_keeps_what_was_said_and_the_session_continues(tmp_path: Path) -> None:
    plan = scenario(
        {
            "content": ["A whole thought.", "And half a one that never ends"],
            "faults": [{"after_events": 6, "stall_s": "forever"}],
        },
        {"text": "Here again.", "times": "always"},
    )
    with serving(plan, strict=True) as server:
        (tmp_path / "work").mkdir()
        child = subprocess.Popen(
            command("-p", "hi"),
            cwd=tmp_path / "work",
            env=environment(tmp_path, server.url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        until(lambda: any(request.status for request in server.requests))
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)
        assert child.returncode == 130
        last = [e for e in entries(transcripts(tmp_path)[0]) if e["type"] == "user"][-1]
        assert "[Request interrupted by user]" in json.dumps(last["message"])
        done = clew(tmp_path, server.url, "-p", "go on", "--continue")
    assert done.stdout == "Here again.\n"


@requirement("R070", "W6")
def test_a_second_sigint_ends_at_once_and_leaves_no_child(tmp_path: Path) -> None:
    stubborn = "trap '' INT TERM; echo $$ > pid; sleep 60; sleep 60"
    plan = scenario(
        {"content": ["I wait.", {"tool": "Bash", "input": {"command": stubborn}}]},
        {"text": "Here again."},
    )
    pid = tmp_path / "work" / "pid"
    with serving(plan, strict=True) as server:
        (tmp_path / "work").mkdir()
        child = subprocess.Popen(
            command("-p", "hi", "--dangerously-skip-permissions"),
            cwd=tmp_path / "work",
            env=environment(tmp_path, server.url) | {"IS_SANDBOX": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        until(lambda: pid.exists() and pid.read_text("utf-8").endswith("\n"))
        # Signals that wait together are one: each look sends another.
        until(lambda: [child.send_signal(signal.SIGINT), child.poll()][1] is not None)
        assert child.returncode == 130
        until(lambda: not Path(f"/proc/{pid.read_text('utf-8').strip()}").exists())
        done = clew(tmp_path, server.url, "-p", "go on", "--continue")
    assert done.stdout == "Here again.\n"


def is_opened(pipe: Path) -> bool:
    """Open and close a pipe for writing, if it has a reader."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, 143)])
def test_a_signal_before_the_prompt_is_begun_ends_the_run_without_it(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    commands = tmp_path / "config" / "commands"
    commands.mkdir(parents=True)
    (commands / "slow.md").write_text(
        "---\nallowed-tools: Bash\n---\nSay !`mkfifo gate; touch on; cat gate`", "utf-8"
    )
    (tmp_path / "work").mkdir()
    with serving(scenario({"text": "Here.", "times": "always"}), strict=True) as server:
        with subprocess.Popen(
            command("-p", "/slow", "--output-format", "stream-json", "--verbose"),
            cwd=tmp_path / "work",
            env=environment(tmp_path, server.url),
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        ) as child:
            until((tmp_path / "work" / "on").exists)
            child.send_signal(number)
            # The signal may have ended the reader before it opened the pipe.
            until(lambda: child.poll() is not None or is_opened(tmp_path / "work" / "gate"))
            assert child.stdout is not None
            said = [json.loads(line) for line in child.stdout]
        assert child.returncode == code
        assert server.requests == []
    (result,) = [frame for frame in said if frame["type"] == "result"]
    assert result["is_error"] is True


def test_signals_while_it_ends_do_not_change_what_its_code_says(tmp_path: Path) -> None:
    with serving(scenario({"text": "Here.", "times": "always"}), strict=True) as server:
        (tmp_path / "work").mkdir()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) * 4:
            with subprocess.Popen(
                command("-p", "hi", "--output-format", "stream-json", "--verbose"),
                cwd=tmp_path / "work",
                env=environment(tmp_path, server.url),
                stdout=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
            ) as child:
                assert child.stdout is not None
                assert any(b'"type":"result"' in line for line in child.stdout)
                while child.poll() is None:
                    child.send_signal(number)
            assert child.returncode in (0, 128 + number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_answer_that_was_stored_is_printed_despite_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    hook = {"matcher": "", "hooks": [{"type": "command", "command": "touch on; sleep 0.2"}]}
    settings = json.dumps({"hooks": {"SessionEnd": [hook]}})
    with serving(scenario({"text": "Here.", "times": "always"}), strict=True) as server:
        (tmp_path / "work").mkdir()
        with subprocess.Popen(
            command("-p", "hi", "--settings", settings),
            cwd=tmp_path / "work",
            env=environment(tmp_path, server.url),
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        ) as child:
            until((tmp_path / "work" / "on").exists)
            child.send_signal(number)
            assert child.stdout is not None
            assert child.stdout.read() == b"Here.\n"
        assert child.returncode == 128 + number
    page = Path(__file__).parents[3] / "docs" / "using" / "options.md"
    assert f"| {128 + number} | {number.name}" in page.read_text("utf-8")


def is_stored(home: Path) -> bool:
    return any(b"Here." in path.read_bytes() for path in transcripts(home))


@pytest.mark.crash
@pytest.mark.timeout(600)
def test_no_answer_that_was_stored_is_lost_to_a_signal(tmp_path: Path) -> None:
    """Two hundred runs that a signal ends, at some moment after the answer's line was written."""
    rng, hit = random.Random(7), 0
    forms = (("text",), ("json",), ("stream-json", "--verbose"))
    with serving(scenario({"text": "Here.", "times": "always"}), strict=True) as server:
        for number in count():
            home = tmp_path / str(number)
            (home / "work").mkdir(parents=True)
            sent = rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
            with Forked(
                ("-p", "hi", "--output-format", *forms[number % len(forms)]),
                cwd=home / "work",
                env=environment(home, server.url),
                stdout=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
            ) as child:
                until(partial(is_stored, home))
                select.select([], [], [], rng.choice((0, 0, 0, rng.random() * 0.05)))
                child.send_signal(sent)
                assert child.stdout is not None
                assert b"Here." in child.stdout.read()
            # Others had ended before the signal came.
            assert child.returncode in (0, 128 + sent, -sent)
            hit += child.returncode == 128 + sent
            if hit == 200:
                return


@requirement("R104", "R112")
def test_totals_and_times_are_left_at_the_end_and_taken_up_by_the_next_run(tmp_path: Path) -> None:
    usage = {"input_tokens": 100, "output_tokens": 10}
    plan = scenario(
        {"content": [{"tool": "Bash", "input": {"command": "echo one"}}], "usage": usage},
        {"text": "Done.", "usage": usage, "times": "always"},
    )
    arguments = ("--output-format", "json", "--model", "claude-sonnet-4-5")
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", *arguments, "--allowedTools", "Bash(echo:*)")
        (path,) = transcripts(tmp_path)
        left = [entry for entry in entries(path) if entry["type"] == "cost-state"][-1]
        again = clew(tmp_path, server.url, "-p", "on", "-c", *arguments)
    first, second = json.loads(done.stdout), json.loads(again.stdout)
    assert left["totalAPIDuration"] == first["duration_api_ms"] > 0
    assert left["totalToolDuration"] > 0
    assert left["totalCostUSD"] == first["total_cost_usd"] > 0
    for model, used in first["modelUsage"].items():
        assert used.items() > left["modelUsage"][model].items()
        assert (used["contextWindow"], used["maxOutputTokens"]) > (100_000, 10_000)
    assert second["modelUsage"]["claude-sonnet-4-5"]["inputTokens"] == 300
    assert (first["usage"]["input_tokens"], second["usage"]["input_tokens"]) == (200, 100)
    after = [entry for entry in entries(path) if entry["type"] == "cost-state"][-1]
    assert after["totalCostUSD"] == second["total_cost_usd"] > left["totalCostUSD"]
    assert after["startTime"] == left["startTime"]


@pytest.mark.parametrize("is_setting", [False, True])
def test_prompts_of_a_session_never_cost_more_than_its_budget(
    tmp_path: Path, is_setting: bool
) -> None:
    """Each response is as long as the request allows, and nothing is in the cache."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        size = len(json.dumps([body["system"], body["tools"], body["messages"]])) // 4
        used = {"cache_creation_input_tokens": size, "output_tokens": body["max_tokens"]}
        return {"text": "long", "usage": {"input_tokens": 1, **used}}

    arguments = ["--output-format", "json", "--model", "opus", "--max-budget-usd", "0.30"]
    if is_setting:
        arguments[-2:] = ["--settings", '{"maxBudgetUsd": 0.3}']
    with serving(answer, strict=True) as server:
        for more in ((), ("-c",), ("-c",)):
            done = clew(tmp_path, server.url, "-p", "go", *more, *arguments)
        assert 1 <= len(server.requests) <= 2
    last = json.loads(done.stdout)
    assert done.returncode == 1
    assert (last["subtype"], last["terminal_reason"]) == (
        "error_max_budget_usd",
        "budget_exhausted",
    )
    assert "maxBudgetUsd" in last["errors"][0]
    assert 0.15 < last["total_cost_usd"] <= 0.30


def test_a_budget_says_that_it_does_not_limit_a_model_without_a_price(tmp_path: Path) -> None:
    with serving(scenario({"text": "ok"})) as server:
        arguments = ("--model", "nobody-knows-it", "--max-budget-usd", "0.01")
        done = clew(tmp_path, server.url, "-p", "go", *arguments)
    assert done.returncode == 0
    assert "the price of nobody-knows-it is unknown" in done.stderr


@requirement("R007", "R026", "W17")
def test_an_answers_entries_say_what_their_one_request_took_and_a_line_of_its_own_says_it_too(
    tmp_path: Path,
) -> None:
    plan = scenario(
        {
            "content": ["I look.", {"tool": "Glob", "input": {"pattern": "*.txt"}}],
            "faults": [{"at": "headers", "stall_s": 0.2}],
        },
        {"status": 529, "headers": {"retry-after": "0"}},
        {"text": "Done.", "model": "nobody-knows-it"},
    )
    with serving(plan) as server:
        done = clew(tmp_path, server.url, "-p", "look", "--output-format", "json")
    result = json.loads(done.stdout)
    log = entries(transcripts(tmp_path)[0])
    said = [e for e in log if e["type"] == "assistant"]
    first = [e for e in said if e["message"]["id"] == said[0]["message"]["id"]]
    assert len(first) == 2
    [(cost_usd, duration_ms)] = {(e["costUSD"], e["durationMs"]) for e in first}
    assert cost_usd > 0
    assert 200 <= duration_ms < 60_000
    assert "costUSD" not in said[-1]  # an unknown price is not one of 0
    requests = [e for e in log if e["type"] == "request-cost"]
    assert [(e["message_id"], e["requestId"]) for e in requests] == [
        (e["message"]["id"], e["requestId"]) for e in (first[0], said[-1])
    ]
    assert requests[0]["costUSD"] == cost_usd
    assert requests[0]["durationMs"] == duration_ms
    assert [e["usage"] for e in requests] == [
        first[0]["message"]["usage"],
        said[-1]["message"]["usage"],
    ]
    assert requests[1]["durationWithoutRetriesMs"] < requests[1]["durationMs"]
    assert result["duration_api_ms"] == pytest.approx(sum(e["durationMs"] for e in requests), abs=2)


def test_calls_that_were_not_allowed_are_said_once_with_what_would_allow_them(
    tmp_path: Path,
) -> None:
    write = {"tool": "Write", "input": {"file_path": "x.txt", "content": "new"}}
    touch = {"tool": "Bash", "input": {"command": "touch a\x1b[2Jb"}}
    plan = {"scenario": 1, "answers": [{"content": [write, touch]}, {"text": "I could not."}]}
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "write it")
    assert done.stdout == "I could not.\n"
    assert done.stderr == (
        "clew: 2 tool calls denied: Write(x.txt), Bash(touch a?[2Jb); -p can't ask for approval, "
        "so allow calls with --allowedTools, --permission-mode or `clew permissions add`\n"
    )
    with serving(plan) as server:
        done = clew(tmp_path, server.url, "-p", "write it", "--output-format", "json")
    assert done.stderr == ""


def test_what_no_option_would_have_allowed_is_said_with_the_reason(tmp_path: Path) -> None:
    made = [{"tool": "Bash", "input": {"command": f"touch {name}"}} for name in "abc"]
    plan = {"scenario": 1, "answers": [{"content": made}, {"text": "No."}]}
    command = "grep -q 'touch a' && { echo 'never a' >&2; exit 2; } || true"
    hook = [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]
    settings = {"hooks": {"PreToolUse": hook}, "permissions": {"deny": ["Bash(touch b)"]}}
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--settings", json.dumps(settings))
    with serving(plan, strict=True) as server:
        quiet = clew(tmp_path, server.url, "-p", "go", "--permission-mode", "dontAsk")
    by_hook, by_rule, unasked = done.stderr.splitlines()
    assert by_hook == "clew: Bash(touch a) was denied: PreToolUse:Bash hook error: never a"
    assert by_rule.startswith("clew: Bash(touch b) was denied: This call is not permitted")
    assert unasked.startswith("clew: 1 tool call denied: Bash(touch c); -p can't ask for approval")
    assert quiet.stderr.startswith("clew: 3 tool calls denied: ")


def test_a_folder_that_is_gone_is_said_with_what_to_do(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    for args in (("-p", "hi"), ("config", "list"), ("--linear",)):
        done = subprocess.run(
            ["sh", "-c", script, "sh", str(gone), *command(*args)],
            env=environment(tmp_path, ""),
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )
        assert done.returncode == 1, done
        assert done.stderr == (
            "clew: the current folder no longer exists; change to an existing folder (cd) and "
            "start clew again\n"
        )
        gone.mkdir()


@requirement("R297", "R097", "R260")
@pytest.mark.parametrize(
    ("name", "content", "kind", "why"),
    [
        ("a.png", b64decode(PIXEL), "image", "image.source.base64.data: Could not process image"),
        ("a.pdf", pdf(1), "document", "pdf.source.base64.data: The PDF specified was not valid."),
    ],
)
def test_a_picture_or_pdf_that_the_service_refuses_is_left_out_and_the_turn_continues(
    tmp_path: Path, name: str, content: bytes, kind: str, why: str
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / name).write_bytes(content)
    why = f"messages.2.content.0.{why}"

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        said = json.dumps(body["messages"])
        if f'"type": "{kind}"' in said:
            return {"status": 400, "error": {"type": "invalid_request_error", "message": why}}
        if "tool_result" in said:
            return {"text": "I could not see it."}
        return {"content": [{"tool": "Read", "input": {"file_path": name}}]}

    with serving(answer) as server:
        done = clew(tmp_path, server.url, "-p", "look")
        later = clew(tmp_path, server.url, "-p", "--continue", "again")
        statuses = [request.status for request in server.requests]
    assert (done.returncode, done.stdout) == (0, "I could not see it.\n")
    assert why.rpartition(": ")[2] in done.stderr
    assert later.returncode == 0
    assert statuses == [200, 400, 200, 200]
    kinds = [entry.get("refusedMedia") for entry in entries(transcripts(tmp_path)[0])]
    assert kinds.count([kind]) == 1
