"""Hooks in a running session: published configurations, well-behaved and misbehaving programs."""

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from clew.agent.executor import MAY_RETRY
from clew.agent.hooked import DEFERRED
from clew.system.config.layers import NOT_TRUSTED
from clew.testing.server import Rule, serving
from tests.fronts.headless.agents_model import by_prompt, once_heard
from tests.fronts.headless.clew_process import clew, environment, transcripts, until
from tests.fronts.headless.clew_process import command as clew_command
from tests.parts.mcp.yard import entry
from tests.requirements import requirement

Json = dict[str, Any]


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def settings(home: Path, hooks: Json, *, of: str = "config", **more: Any) -> None:
    write(home / of / "settings.json", json.dumps({"hooks": hooks} | more))


def trust(home: Path) -> None:
    store = {"folders": [str((home / "work").resolve())]}
    write(home / "config" / "clew" / "trust.json", json.dumps(store), 0o600)


def command(text: str, **more: Any) -> Json:
    return {"type": "command", "command": text} | more


def at(event: str, *handlers: Json, matcher: str | None = None) -> Json:
    group: Json = {"hooks": list(handlers)} | ({} if matcher is None else {"matcher": matcher})
    return {event: [group]}


def script(home: Path, name: str, body: str) -> str:
    return str(write(home / "scripts" / name, body, 0o755))


def plan(*answers: Json) -> Json:
    return {"scenario": 1, "answers": [*answers, {"text": "Done.", "times": "always"}]}


def bash(text: str) -> Json:
    return {"content": [{"tool": "Bash", "input": {"command": text}}]}


def run(home: Path, answers: Json | Rule, *args: str, prompt: str = "go") -> tuple[Any, list[Json]]:
    """Return the result of the run, and the messages of the last request."""
    with serving(answers, strict=True) as server:
        done = clew(home, server.url, "-p", prompt, *args)
        bodies = [request.body for request in server.requests]
    return done, bodies[-1]["messages"] if bodies else []


def texts(messages: list[Json]) -> str:
    return json.dumps(messages)


def logged(home: Path) -> list[Json]:
    return [json.loads(line) for line in transcripts(home)[-1].read_text("utf-8").splitlines()]


def attachments(home: Path) -> list[Json]:
    return [e["attachment"] for e in logged(home) if e["type"] == "attachment"]


def inputs(home: Path) -> list[Json]:
    """Return every input that the `note` hook received."""
    lines = (home / "noted").read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def note(home: Path) -> Json:
    """Write the input in a single write, because other hooks may write at the same time."""
    return command(f"""given=$(cat); printf '%s\\n' "$given" >> {home}/noted""")


BLOCK_RM = """#!/bin/sh
if grep -q 'rm -rf'; then
  printf '%s' '{"hookSpecificOutput": {"hookEventName": "PreToolUse",
    "permissionDecision": "deny", "permissionDecisionReason": "Destructive command blocked by hook"}}'
else
  exit 0
fi
"""


@requirement("R224")
def test_the_published_example_blocks_a_destructive_command(tmp_path: Path) -> None:
    handler = command(
        "${CLAUDE_PROJECT_DIR}/.claude/hooks/block-rm.sh", args=[], **{"if": "Bash(rm *)"}
    )
    write(tmp_path / "work/.claude/hooks/block-rm.sh", BLOCK_RM, 0o755)
    settings(tmp_path, at("PreToolUse", handler, matcher="Bash"), of="work/.claude")
    trust(tmp_path)
    kept = write(tmp_path / "work/build/kept", "x")
    _, messages = run(tmp_path, plan(bash("rm -rf build")), "--allowedTools", "Bash")
    assert "PreToolUse:Bash hook error: Destructive command blocked by hook" in texts(messages)
    assert kept.exists()


def test_the_condition_spares_the_start_where_the_call_is_another(tmp_path: Path) -> None:
    handler = note(tmp_path) | {"if": "Bash(rm *)"}
    settings(tmp_path, at("PreToolUse", handler, matcher="Bash"))
    run(tmp_path, plan(bash("echo hello"), bash("echo $(rm -f x)")), "--allowedTools", "Bash")
    assert [each["tool_input"]["command"] for each in inputs(tmp_path)] == ["echo $(rm -f x)"]


@requirement("R160")
def test_every_event_of_a_turn_is_told_what_it_is_about(tmp_path: Path) -> None:
    every = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch",
             "PostToolUseFailure", "PermissionRequest", "Stop", "SessionEnd")  # fmt: skip
    settings(tmp_path, {name: [{"hooks": [note(tmp_path)]}] for name in every})
    write(tmp_path / "work" / "a.txt", "hello\n")
    answers = plan(
        {"content": [{"tool": "Read", "input": {"file_path": "a.txt"}}]},
        bash("exit 3"),
        bash("touch asked"),
    )
    run(tmp_path, answers, "--allowedTools", "Bash(exit 3)")
    said = inputs(tmp_path)
    assert [each["hook_event_name"] for each in said] == [
        "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch",
        "PreToolUse", "PostToolUseFailure", "PostToolBatch",
        "PreToolUse", "PermissionRequest", "PostToolBatch", "Stop", "SessionEnd",
    ]  # fmt: skip
    by_name = {each["hook_event_name"]: each for each in said}
    (transcript,) = transcripts(tmp_path)
    work = str((tmp_path / "work").resolve())
    for each in said:
        assert each["session_id"] == transcript.stem
        assert each["transcript_path"] == str(transcript)
        assert each["cwd"] == work
    assert by_name["SessionStart"]["source"] == "startup"
    assert "permission_mode" not in by_name["SessionStart"]
    assert by_name["UserPromptSubmit"]["prompt"] == "go"
    assert by_name["UserPromptSubmit"]["permission_mode"] == "default"
    prompt_ids = {each["prompt_id"] for each in said if "prompt_id" in each}
    assert prompt_ids == {e["promptId"] for e in logged(tmp_path) if "promptId" in e}
    assert said[2]["tool_input"]["file_path"] == f"{work}/a.txt"
    assert by_name["PostToolUse"]["tool_response"]["type"] == "text"
    assert by_name["PostToolUseFailure"]["error"].startswith("Exit code 3")
    assert "tool_use_id" not in by_name["PermissionRequest"]
    (suggestion,) = by_name["PermissionRequest"]["permission_suggestions"]
    assert suggestion["rules"] == [{"toolName": "Bash", "ruleContent": "touch *"}]
    assert by_name["Stop"]["last_assistant_message"] == "Done."
    assert by_name["Stop"]["stop_hook_active"] is False
    assert by_name["SessionEnd"]["reason"] == "other"


@pytest.mark.parametrize("trusted", [False, True])
def test_the_hook_of_a_folder_runs_once_the_folder_is_trusted(
    tmp_path: Path, trusted: bool
) -> None:
    settings(tmp_path, at("SessionStart", command("touch ran")), of="work/.claude")
    if trusted:
        trust(tmp_path)
    done, _ = run(tmp_path, plan())
    assert (tmp_path / "work" / "ran").exists() is trusted
    assert (f"hooks: ignored because {NOT_TRUSTED}" in done.stderr) is not trusted


def test_words_at_the_start_and_at_a_prompt_reach_the_model_and_stay_on_resume(
    tmp_path: Path,
) -> None:
    context = json.dumps(
        {
            "hookSpecificOutput": {
                "hookEventName": "UserPromptSubmit",
                "additionalContext": "it is late",
            }
        }
    )
    settings(
        tmp_path,
        at("SessionStart", command("echo the branch is main"), matcher="startup")
        | at("UserPromptSubmit", command(f"echo '{context}'")),
    )
    _, messages = run(tmp_path, plan())
    first = messages[0]
    assert "SessionStart:startup hook: the branch is main" in texts(messages)
    assert "UserPromptSubmit hook: it is late" in texts(messages)
    settings(tmp_path, {})
    _, messages = run(tmp_path, plan(), "--continue")
    assert messages[0] == first
    kinds = [a["type"] for a in attachments(tmp_path) if a["type"].startswith("hook_")]
    assert kinds == ["hook_success", "hook_success", "hook_additional_context"]


def test_a_blocked_prompt_reaches_nobody(tmp_path: Path) -> None:
    settings(tmp_path, at("UserPromptSubmit", command("echo no secrets >&2; exit 2")))
    with serving(plan(), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "my password", "--output-format", "json")
        assert server.requests == []
    said = json.loads(done.stdout)
    assert done.returncode == 1
    assert (said["subtype"], said["num_turns"]) == ("success", 0)
    assert "no secrets" in said["result"]


def test_a_stop_hook_has_the_work_finished(tmp_path: Path) -> None:
    body = "if [ -f tested ]; then exit 0; fi; echo run the tests >&2; exit 2"
    settings(tmp_path, at("Stop", command(body)))
    answers = plan({"text": "I am done."}, bash("touch tested"))
    done, messages = run(tmp_path, answers, "--allowedTools", "Bash")
    assert "Stop hook feedback:\\nrun the tests" in texts(messages)
    assert done.stdout == "Done.\n"
    summaries = [e for e in logged(tmp_path) if e.get("subtype") == "stop_hook_summary"]
    assert [s["hookCount"] for s in summaries] == [1, 1]


def test_feedback_of_a_stop_hook_is_no_error_and_goes_on_too(tmp_path: Path) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "one more look"}}
    body = f"grep -q 'stop_hook_active\":true' && exit 0; echo '{json.dumps(answer)}'"
    settings(tmp_path, at("Stop", command(body)))
    _, messages = run(tmp_path, plan())
    assert texts(messages).count("one more look") == 1


def test_a_changed_input_runs_and_a_yes_spares_the_question(tmp_path: Path) -> None:
    answer = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "updatedInput": {"command": "touch other"},
        }
    }
    settings(tmp_path, at("PreToolUse", command(f"echo '{json.dumps(answer)}'")))
    run(tmp_path, plan(bash("touch this")))
    assert (tmp_path / "work" / "other").exists()
    assert not (tmp_path / "work" / "this").exists()
    denied = {"permissions": {"deny": ["Bash(touch *)"]}}
    (tmp_path / "work" / "other").unlink()
    run(tmp_path, plan(bash("touch this")), "--settings", json.dumps(denied))
    assert not (tmp_path / "work" / "other").exists()


def monitor(text: str) -> Json:
    tool_input = {"command": text, "description": "watch", "timeout_ms": 2000}
    return {"content": [{"tool": "Monitor", "input": tool_input}]}


def test_hooks_for_bash_check_the_commands_of_monitor(tmp_path: Path) -> None:
    deny = {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
    settings(
        tmp_path,
        at(
            "PreToolUse",
            note(tmp_path),
            command(f"echo '{json.dumps({'hookSpecificOutput': deny})}'"),
            matcher="Bash",
        )
        | {"PostToolUse": [{"matcher": "Bash", "hooks": [note(tmp_path)]}]},
    )
    run(tmp_path, plan(monitor("touch this")), "--allowedTools", "Bash")
    assert not (tmp_path / "work" / "this").exists()
    (told,) = inputs(tmp_path)
    assert (told["tool_name"], told["tool_input"]) == (
        "Bash",
        {"command": "touch this", "description": "watch"},
    )


def test_a_hook_for_bash_changes_the_command_of_monitor_and_nothing_else(tmp_path: Path) -> None:
    changed = {"hookEventName": "PreToolUse", "updatedInput": {"command": "touch other"}}
    said = command(f"echo '{json.dumps({'hookSpecificOutput': changed})}'")
    answer = {"behavior": "allow", "updatedInput": {"command": "touch third"}}
    decision = {"hookEventName": "PermissionRequest", "decision": answer}
    settings(tmp_path, at("PreToolUse", said, matcher="Bash"))
    run(tmp_path, plan(monitor("touch this")), "--allowedTools", "Bash")
    assert (tmp_path / "work" / "other").exists()
    said = command(f"echo '{json.dumps({'hookSpecificOutput': decision})}'")
    settings(tmp_path, at("PermissionRequest", said, matcher="Bash"))
    run(tmp_path, plan(monitor("touch this")))
    assert (tmp_path / "work" / "third").exists()
    assert not (tmp_path / "work" / "this").exists()


def test_a_call_that_a_hook_puts_off_ends_the_run_and_is_made_when_it_continues(
    tmp_path: Path,
) -> None:
    later = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "defer"}}
    body = f"[ -f ../decided ] || echo '{json.dumps(later)}'"
    settings(tmp_path, at("PreToolUse", command(body), matcher="Bash"))
    told = ("--output-format", "json", "--allowedTools", "Bash")
    answers = {"scenario": 1, "answers": [bash("touch it")]}
    done, _ = run(tmp_path, answers, *told)
    said = json.loads(done.stdout)
    assert (said["subtype"], said["stop_reason"], said["terminal_reason"]) == (
        "success", "tool_deferred", "tool_deferred",
    )  # fmt: skip
    assert said["deferred_tool_use"].keys() == {"id", "name", "input"}
    assert said["deferred_tool_use"]["input"] == {"command": "touch it"}
    assert said["permission_denials"] == []
    assert not (tmp_path / "work" / "it").exists()
    (tmp_path / "decided").touch()
    done, messages = run(tmp_path, plan(), *told, "--resume", said["session_id"], prompt="go on")
    assert DEFERRED not in texts(messages)
    assert "deferred_tool_use" not in json.loads(done.stdout)
    assert (tmp_path / "work" / "it").exists()
    (tmp_path / "decided").unlink()
    done, _ = run(tmp_path, answers, "--allowedTools", "Bash")
    assert done.returncode == 0
    assert "a hook deferred Bash(touch it); run it with: clew -p --resume" in done.stderr


def test_a_question_can_be_answered_by_a_hook(tmp_path: Path) -> None:
    answer = {
        "hookSpecificOutput": {
            "hookEventName": "PermissionRequest",
            "decision": {"behavior": "allow"},
        }
    }
    settings(
        tmp_path, at("PermissionRequest", command(f"echo '{json.dumps(answer)}'"), matcher="Bash")
    )
    run(tmp_path, plan(bash("touch asked")))
    assert (tmp_path / "work" / "asked").exists()


def test_a_hook_can_give_back_the_suggestions_that_it_received(tmp_path: Path) -> None:
    script = write(
        tmp_path / "answer.py",
        """import json, sys
asked = json.load(sys.stdin)
decision = {"behavior": "allow", "updatedPermissions": asked["permission_suggestions"]}
answer = {"hookEventName": "PermissionRequest", "decision": decision}
print(json.dumps({"hookSpecificOutput": answer}))
""",
    )
    settings(tmp_path, at("PermissionRequest", command(f"python3 {script}; echo >> {tmp_path}/n")))
    edit = {"tool": "Write", "input": {"file_path": "a.txt", "content": "a"}}
    more = {"tool": "Write", "input": {"file_path": "b.txt", "content": "b"}}
    done, _ = run(tmp_path, plan({"content": [edit]}, {"content": [more]}))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "work" / "b.txt").exists()
    # The mode that was suggested allows the second call.
    assert (tmp_path / "n").read_text("utf-8") == "\n"


def test_the_model_reads_what_hooks_say_of_a_result(tmp_path: Path) -> None:
    replaced = {
        "hookSpecificOutput": {
            "hookEventName": "PostToolUse",
            "updatedToolOutput": {"stdout": "[redacted]", "stderr": "", "interrupted": False, "isImage": False},
        }
    }  # fmt: skip
    settings(
        tmp_path,
        at(
            "PostToolUse",
            command(f"echo '{json.dumps(replaced)}'"),
            command("echo format it >&2; exit 2"),
        )
        | at("PostToolUseFailure", command("echo look at the log >&2; exit 2")),
    )
    answers = plan(bash("echo a-secret-word"), bash("exit 4"))
    _, messages = run(tmp_path, answers, "--allowedTools", "Bash")
    said = texts(messages)
    assert "[redacted]" in said
    assert "a-secret-word" not in said.split("[redacted]")[1]
    assert "PostToolUse:Bash hook: format it" in said
    assert "PostToolUseFailure:Bash hook: look at the log" in said


def test_a_hook_can_end_the_run(tmp_path: Path) -> None:
    settings(
        tmp_path,
        at("PostToolUse", command("""echo '{"continue": false, "stopReason": "enough"}'""")),
    )
    with serving(plan(bash("echo x")), strict=True) as server:
        done = clew(
            tmp_path, server.url, "-p", "go", "--output-format", "json", "--allowedTools", "Bash"
        )
        assert len(server.requests) == 1
    said = json.loads(done.stdout)
    assert (said["subtype"], said["terminal_reason"], said["result"]) == (
        "success", "hook_stopped", "enough",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("echo broken >&2; exit 1", "Failed with non-blocking status code: broken"),
        ("echo '{\"decision\": '; echo '}'", "the output is not valid JSON"),
        ('echo \'{"decision": "perhaps"}\'', "the reply is invalid"),
        (
            'echo \'{"hookSpecificOutput": {"hookEventName": "Stop"}}\'',
            "the reply is for Stop, not for PreToolUse",
        ),
        ("kill -9 $$", "exit code 137"),
        ("/nowhere/at-all", "not found"),
    ],
)
def test_a_hook_that_fails_is_told_and_holds_nothing_up(
    tmp_path: Path, body: str, told: str
) -> None:
    settings(tmp_path, at("PreToolUse", command(body)))
    done, messages = run(tmp_path, plan(bash("echo it ran")), "--allowedTools", "Bash")
    assert "it ran" in texts(messages)
    assert told in done.stderr
    assert "PreToolUse:Bash hook error" in done.stderr
    assert any(a["type"] == "hook_non_blocking_error" for a in attachments(tmp_path))


def test_a_hook_that_hangs_is_ended_at_its_time_with_all_it_started(tmp_path: Path) -> None:
    settings(tmp_path, at("PreToolUse", command("sleep 600 & echo $! > pid; sleep 600", timeout=2)))
    done, messages = run(tmp_path, plan(bash("echo it ran")), "--allowedTools", "Bash")
    assert "it ran" in texts(messages)
    assert "no reply within 2 s" in done.stderr
    pid = (tmp_path / "work" / "pid").read_text("utf-8").strip()
    assert not Path(f"/proc/{pid}").exists()
    assert any(a["type"] == "hook_cancelled" for a in attachments(tmp_path))


def test_a_hook_that_prints_without_end_is_ended(tmp_path: Path) -> None:
    settings(tmp_path, at("PreToolUse", command("yes")))
    done, messages = run(tmp_path, plan(bash("echo it ran")), "--allowedTools", "Bash")
    assert "it ran" in texts(messages)
    assert "stopped after printing more than 64 MiB" in done.stderr


def test_a_hook_that_forks_away_is_not_waited_for_and_ends_with_clew(tmp_path: Path) -> None:
    settings(tmp_path, at("PreToolUse", command("sleep 600 & echo $! > pid; exit 0")))
    _, messages = run(tmp_path, plan(bash("echo it ran")), "--allowedTools", "Bash")
    assert "it ran" in texts(messages)
    pid = (tmp_path / "work" / "pid").read_text("utf-8").strip()
    assert not Path(f"/proc/{pid}").exists()


def test_long_words_go_into_a_file_and_their_beginning_to_the_model(tmp_path: Path) -> None:
    settings(tmp_path, at("UserPromptSubmit", command("head -c 30000 /dev/zero | tr '\\0' x")))
    _, messages = run(tmp_path, plan())
    said = texts(messages)
    assert "30,000 characters in total; full text in " in said
    path = Path(said.split("full text in ")[1].split("]")[0])
    assert path.read_text("utf-8") == "x" * 30_000
    assert path.stat().st_mode & 0o777 == 0o600


def test_keys_do_not_leave_through_a_hooks_words(tmp_path: Path) -> None:
    hook = command("echo key $ANTHROPIC_API_KEY") | {"allowedEnvVars": ["ANTHROPIC_API_KEY"]}
    settings(tmp_path, at("UserPromptSubmit", hook))
    _, messages = run(tmp_path, plan())
    assert "key [masked]" in texts(messages)
    assert "sk-ant-test-0000" not in transcripts(tmp_path)[0].read_text("utf-8")


def test_what_runs_in_the_background_says_its_words_later(tmp_path: Path) -> None:
    answer = {
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "tests pass"}
    }
    later = command(f"echo '{json.dumps(answer)}'", **{"async": True})
    settings(tmp_path, at("PostToolUse", later, matcher="Bash"))
    said = "PostToolUse:Bash hook: tests pass"
    model = by_prompt({"go": [bash("echo one"), once_heard(said, {"text": "I heard."})]})
    done, messages = run(tmp_path, model, "--allowedTools", "Bash")
    assert done.stdout == "I heard.\n"
    assert said in texts(messages)


def test_hooks_of_one_event_run_side_by_side(tmp_path: Path) -> None:
    """Each of the two waits for the other: one after the other they would never end."""
    meet = (
        "touch {mine}; for i in $(seq 500); do [ -f {other} ] && exit 0; sleep 0.02; done; exit 1"
    )
    pair = [command(meet.format(mine=a, other=b)) for a, b in (("a", "b"), ("b", "a"))]
    settings(tmp_path, at("UserPromptSubmit", *pair))
    done, _ = run(tmp_path, plan())
    assert done.stderr == ""


def test_ten_hooks_of_one_event_run_side_by_side(tmp_path: Path) -> None:
    """Each waits until all ten have begun."""
    meet = (
        "touch here-{n}; for i in $(seq 1000); do [ $(ls here-* | wc -l) = 10 ] && exit 0; "
        "sleep 0.02; done; exit 1"
    )
    settings(tmp_path, at("PreToolUse", *(command(meet.format(n=n)) for n in range(10))))
    done, messages = run(tmp_path, plan(bash("echo it ran")), "--allowedTools", "Bash")
    assert done.stderr == ""
    assert "it ran" in texts(messages)


def test_no_key_reaches_the_log_of_faults_through_hooks_and_calls(tmp_path: Path) -> None:
    others = ["ghp_" + "a1B2c3D4e5" * 4, "AKIAABCDEFGHIJKLMNOP", "sk-ant-test-0000"]
    post = {
        "type": "http", "url": "http://127.0.0.1:9/x", "allowedEnvVars": ["ANTHROPIC_API_KEY"],
        "headers": {"Authorization": "Bearer $ANTHROPIC_API_KEY", "X-Key": others[0]},
    }  # fmt: skip
    says = command(f"echo $ANTHROPIC_API_KEY; echo {' '.join(others)} >&2; exit 1")
    settings(tmp_path, at("PreToolUse", says, post))
    log = tmp_path / "log"
    printing = bash(f"echo {' '.join(others)}")
    run(tmp_path, plan(printing), "--allowedTools", "Bash", "--debug-file", str(log))
    written = log.read_text("utf-8")
    assert "HookFinished" in written
    assert "ToolFinished" in written
    assert [key for key in others if key in written] == []


def test_the_variables_and_the_folder_of_a_hook(tmp_path: Path) -> None:
    settings(tmp_path, at("UserPromptSubmit", command('echo "$CLAUDE_PROJECT_DIR|$PWD|$CLEW"')))
    _, messages = run(tmp_path, plan())
    work = (tmp_path / "work").resolve()
    assert f"{work}|{work}|1" in texts(messages)


def test_a_title_and_words_for_people(tmp_path: Path) -> None:
    answer = {
        "systemMessage": "slow today",
        "hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "sessionTitle": "the work"},
    }
    settings(tmp_path, at("UserPromptSubmit", command(f"echo '{json.dumps(answer)}'")))
    done, messages = run(tmp_path, plan())
    assert "clew: slow today" in done.stderr
    assert "slow today" not in texts(messages)
    assert [e["customTitle"] for e in logged(tmp_path) if e["type"] == "custom-title"] == [
        "the work"
    ]


def test_a_model_may_judge(tmp_path: Path) -> None:
    asked = {"type": "prompt", "prompt": "Is all done? $ARGUMENTS"}
    settings(tmp_path, at("Stop", asked))
    verdict = '{"ok": false, "reason": "the tests did not run"}'
    answers = {
        "scenario": 1,
        "answers": [
            {"text": "Done?"},
            {"text": verdict},
            {"text": "Done!"},
            {"text": '{"ok": true}'},
        ],
    }
    with serving(answers, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go")
        bodies = [request.body for request in server.requests]
    assert done.stdout == "Done!\n"
    assert '\\"last_assistant_message\\":\\"Done?\\"' in texts(bodies[1]["messages"])
    assert "Stop hook feedback:\\nthe tests did not run" in texts(bodies[2]["messages"])


@requirement("R224")
def test_an_agent_may_look_before_it_judges_and_asks_no_hook_itself(tmp_path: Path) -> None:
    """The published example: is all done that was asked for? The tests are looked at first."""
    asked = {"type": "agent", "prompt": "Did the tests pass? $ARGUMENTS", "timeout": 120}
    settings(tmp_path, at("Stop", asked) | at("PreToolUse", note(tmp_path)))
    write(tmp_path / "work" / "report.txt", "2 failed\n")
    no = '{"ok": false, "reason": "two tests failed", "impossible": true}'
    answers = {
        "scenario": 1,
        "answers": [
            {"text": "Done?"},
            {"content": [{"tool": "Read", "input": {"file_path": "report.txt"}}]},
            {"content": [{"tool": "Bash", "input": {"command": "touch forbidden"}}]},
            {"text": no},
            {"text": "Done!"},
            {"text": '{"ok": true}'},
        ],
    }
    with serving(answers, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go")
        bodies = [request.body for request in server.requests]
    assert (done.stdout, done.stderr) == ("Done!\n", "")
    assert '\\"last_assistant_message\\":\\"Done?\\"' in texts(bodies[1]["messages"])
    assert "2 failed" in texts(bodies[2]["messages"])
    assert not (tmp_path / "work" / "forbidden").exists()
    assert "Stop hook feedback:\\ntwo tests failed" in texts(bodies[4]["messages"])
    assert not (tmp_path / "noted").exists()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            {"text": "I think so."},
            'the model\'s answer is not a JSON object with a boolean "ok": I think so.',
        ),
        ({"status": 400}, "the agent could not answer"),
    ],
)
def test_an_agent_that_gives_no_verdict_is_told_and_holds_nothing_up(
    tmp_path: Path, answer: Json, told: str
) -> None:
    settings(tmp_path, at("Stop", {"type": "agent", "prompt": "Is all done?"}))
    with serving({"scenario": 1, "answers": [{"text": "Done."}, answer]}, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go")
    assert done.stdout == "Done.\n"
    assert told in done.stderr


def test_a_hook_may_change_what_is_permitted_from_now_on(tmp_path: Path) -> None:
    update = {
        "type": "addRules", "behavior": "allow", "destination": "session",
        "rules": [{"toolName": "Bash", "ruleContent": "touch *"}],
    }  # fmt: skip
    decision = {"behavior": "allow", "updatedPermissions": [update]}
    answer = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    body = f"echo asked >> questions; echo '{json.dumps(answer)}'"
    settings(tmp_path, at("PermissionRequest", command(body)))
    run(tmp_path, plan(bash("touch one"), bash("touch two")))
    assert (tmp_path / "work" / "two").exists()
    assert (tmp_path / "work" / "questions").read_text("utf-8") == "asked\n"
    decision["updatedPermissions"] = [{"type": "nothing"}]
    settings(tmp_path, at("PermissionRequest", command(f"echo '{json.dumps(answer)}'")))
    done, _ = run(tmp_path, plan(bash("touch three")))
    assert (tmp_path / "work" / "three").exists()
    assert "clew: updatedPermissions: " in done.stderr


def test_a_move_of_the_shell_is_told_and_variables_that_hooks_leave_are_the_shells(
    tmp_path: Path,
) -> None:
    leave = """echo 'export STARTED=yes' >> "$CLAUDE_ENV_FILE" """
    moved = note(tmp_path)["command"] + """; echo "export PLACE=$PWD" >> "$CLAUDE_ENV_FILE" """
    settings(tmp_path, at("SessionStart", command(leave)) | at("CwdChanged", command(moved)))
    answers = plan(bash("mkdir sub && cd sub"), bash("touch x; echo $STARTED $PLACE"))
    _, messages = run(tmp_path, answers, "--allowedTools", "Bash")
    work = (tmp_path / "work").resolve()
    assert f"yes {work}/sub" in texts(messages)
    (told,) = inputs(tmp_path)
    assert (told["old_cwd"], told["new_cwd"]) == (str(work), f"{work}/sub")


@requirement("R274")
def test_a_denied_call_that_a_hook_allows_again_is_recorded_when_it_runs(tmp_path: Path) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "PermissionDenied", "retry": True}}
    body = f"echo '{json.dumps(answer)}'"
    settings(tmp_path, at("PermissionDenied", command(body)), sandbox={"enabled": False})
    no = {"text": '{"verdict": "unsafe", "why": "it removes"}'}
    yes = {"text": '{"verdict": "safe", "why": "it was allowed"}'}
    done = {"text": "Done.", "times": "always"}
    answers = {"scenario": 1, "answers": [bash("touch it"), no, bash("touch it"), yes, bash("touch other"), yes, done]}  # fmt: skip
    _, messages = run(tmp_path, answers, "--permission-mode", "auto")
    assert (tmp_path / "work" / "it").exists()
    (path,) = transcripts(tmp_path)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    (retried,) = (line for line in lines if line.get("subtype") == "permission_retry")
    assert retried["commands"] == ["touch it"]
    result = next(line for line in lines if line.get("uuid") == retried["parentUuid"])
    assert result["message"]["content"][0]["tool_use_id"] == retried["toolUseID"]
    assert any(line.get("parentUuid") == retried["uuid"] for line in lines)
    assert "permission_retry" not in json.dumps(messages)


def test_a_reviewers_no_is_told_and_may_be_tried_again(tmp_path: Path) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "PermissionDenied", "retry": True}}
    body = f"{note(tmp_path)['command']}; echo '{json.dumps(answer)}'"
    settings(tmp_path, at("PermissionDenied", command(body)), sandbox={"enabled": False})
    refusing = {"text": '{"verdict": "unsafe", "why": "it removes"}'}
    answers = {
        "scenario": 1,
        "answers": [bash("touch it"), refusing, {"text": "Done.", "times": "always"}],
    }
    _, messages = run(tmp_path, answers, "--permission-mode", "auto")
    (told,) = inputs(tmp_path)
    assert "it removes" in told["reason"]
    assert MAY_RETRY.strip() in texts(messages)
    assert not (tmp_path / "work" / "it").exists()


def test_a_tool_of_a_server_is_called_with_parts_of_the_event(tmp_path: Path) -> None:
    """The published example: after each Write or Edit, a server looks at the file."""
    handler = {
        "type": "mcp_tool", "server": "memo", "tool": "echo",
        "input": {"text": "${tool_input.file_path} by ${tool_name}${nothing}"},
    }  # fmt: skip
    prompted = {"type": "mcp_tool", "server": "memo", "tool": "echo", "input": {"text": "hello"}}
    none = {"type": "mcp_tool", "server": "other", "tool": "echo"}
    missing = {"type": "mcp_tool", "server": "memo", "tool": "none"}
    fails = {"type": "mcp_tool", "server": "memo", "tool": "fail"}
    settings(
        tmp_path,
        at("UserPromptSubmit", prompted)
        | at("PostToolUse", handler, none, missing, fails, matcher="Write|Edit")
        | at("SessionStart", prompted),
    )
    written = {"content": [{"tool": "Write", "input": {"file_path": "a.txt", "content": "x"}}]}
    servers = json.dumps({"mcpServers": {"memo": entry("honest")}})
    done, messages = run(
        tmp_path, plan(written), "--mcp-config", servers, "--allowedTools", "Write"
    )
    assert "UserPromptSubmit hook: you said hello" in texts(messages)
    said = [
        a["stdout"]
        for a in attachments(tmp_path)
        if a.get("hookEvent") == "PostToolUse" and "stdout" in a
    ]
    assert f"you said {(tmp_path / 'work').resolve()}/a.txt by Write" in said
    assert 'MCP server "other"' in done.stderr
    assert 'tool "none" not found' in done.stderr
    assert "memo: fail failed: " in done.stderr
    assert "MCP servers are not available yet during SessionStart" in done.stderr


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "PreToolUse", "Stop"])
def test_a_user_who_stops_the_run_stops_the_hook_it_waits_for(tmp_path: Path, event: str) -> None:
    settings(tmp_path, at(event, command("echo $$ > pid; touch waiting; sleep 600")))
    (tmp_path / "work").mkdir()
    with serving(plan(bash("echo x")), strict=True) as server:
        child = subprocess.Popen(
            clew_command("-p", "go", "--allowedTools", "Bash"),
            cwd=tmp_path / "work",
            env=environment(tmp_path, server.url),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until((tmp_path / "work" / "waiting").exists)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=30) == 130
    pid = (tmp_path / "work" / "pid").read_text("utf-8").strip()
    assert not Path(f"/proc/{pid}").exists()
    asked = [
        e
        for path in transcripts(tmp_path)
        for e in map(json.loads, path.read_text("utf-8").splitlines())
        if e["type"] == "user"
    ]
    assert bool(asked) is (event != "UserPromptSubmit")


# -- http


class Received:
    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], Json]] = []
        self.answer: tuple[int, bytes] = (200, b"")


@contextmanager
def listening() -> Iterator[tuple[str, Received]]:
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.requests.append((dict(self.headers), json.loads(body)))
            status, said = received.answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hooks/pre-tool-use", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_address_is_posted_to_and_its_answer_counts(tmp_path: Path) -> None:
    with listening() as (url, received):
        handler = {
            "type": "http", "url": url, "timeout": 30,
            "headers": {"Authorization": "Bearer $MY_TOKEN", "X-Other": "$HOME"},
            "allowedEnvVars": ["MY_TOKEN"],
        }  # fmt: skip
        denied = {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": "Database writes are not allowed",
            }
        }
        received.answer = (200, json.dumps(denied).encode())
        settings(tmp_path, at("PreToolUse", handler, matcher="Bash"), env={"MY_TOKEN": "token-1"})
        _, messages = run(tmp_path, plan(bash("touch it")), "--allowedTools", "Bash")
        (headers, body) = received.requests[0]
    assert headers["Authorization"] == "Bearer token-1"
    assert headers["X-Other"] == ""
    assert headers["Content-Type"] == "application/json"
    assert body["tool_input"] == {"command": "touch it"}
    assert "Database writes are not allowed" in texts(messages)
    assert not (tmp_path / "work" / "it").exists()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((500, b"{}"), "HTTP status 500"),
        ((200, b"fine"), "the reply is not a JSON object"),
        ((200, b'{"decision": 1}'), "the reply is invalid"),
    ],
)
def test_an_address_that_answers_otherwise_blocks_nothing(
    tmp_path: Path, answer: tuple[int, bytes], told: str
) -> None:
    with listening() as (url, received):
        received.answer = answer
        settings(tmp_path, at("PreToolUse", {"type": "http", "url": url}))
        done, messages = run(tmp_path, plan(bash("echo it ran")), "--allowedTools", "Bash")
    assert told in done.stderr
    assert "it ran" in texts(messages)


def test_addresses_and_variables_can_be_limited(tmp_path: Path) -> None:
    with listening() as (url, received):
        handler = {"type": "http", "url": url, "headers": {"A": "$T"}, "allowedEnvVars": ["T"]}
        settings(
            tmp_path,
            at("UserPromptSubmit", handler),
            env={"T": "token-1"},
            httpHookAllowedEnvVars=[],
            allowedHttpHookUrls=["http://127.0.0.1:*/hooks/*"],
        )
        run(tmp_path, plan())
        assert received.requests[0][0]["A"] == ""
        settings(tmp_path, at("UserPromptSubmit", handler), allowedHttpHookUrls=["https://other/*"])
        done, _ = run(tmp_path, plan())
        assert len(received.requests) == 1
    assert "is not in allowedHttpHookUrls" in done.stderr


def test_hooks_are_off_for_a_run_that_says_so(tmp_path: Path) -> None:
    settings(tmp_path, at("SessionStart", command("touch ran")))
    run(tmp_path, plan(), "--settings", '{"disableAllHooks": true}')
    assert not (tmp_path / "work" / "ran").exists()


def test_what_is_wrong_with_hooks_is_said_at_the_start(tmp_path: Path) -> None:
    settings(tmp_path, at("PreToolUs", command("true")))
    done, _ = run(tmp_path, plan())
    assert 'hooks.PreToolUs[0].hooks[0]: unknown event (did you mean "PreToolUse"?)' in done.stderr


def test_a_hook_finds_no_key_of_clews_unless_its_settings_name_it(tmp_path: Path) -> None:
    script = f'echo "<$ANTHROPIC_API_KEY> <$OTHER>" >> {tmp_path}/seen'
    hook = command(script)
    answers = plan(bash("echo hi"))
    settings(tmp_path, at("PreToolUse", hook), env={"OTHER": "of the user"})
    run(tmp_path, answers)
    settings(tmp_path, at("PreToolUse", hook | {"allowedEnvVars": ["ANTHROPIC_API_KEY"]}))
    run(tmp_path, answers)
    lines = (tmp_path / "seen").read_text("utf-8").splitlines()
    assert lines == ["<> <of the user>", "<sk-ant-test-0000> <>"]
