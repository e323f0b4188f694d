"""Events outside turns, in the real clew: what hooks receive, and what they may do about it."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from clew.agent.hooks.events import EVENTS
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, uses
from tests.fronts.headless.clew_process import clew, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_hooks import (
    at,
    bash,
    command,
    inputs,
    note,
    plan,
    run,
    settings,
    texts,
    write,
)
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.parts.mcp.yard import entry
from tests.requirements import requirement

Json = dict[str, Any]
TESTS = Path(__file__).parents[2]


def answering(event: str, **fields: Any) -> Json:
    answer = {"hookSpecificOutput": {"hookEventName": event} | fields}
    return command(f"echo '{json.dumps(answer)}'")


def noted(home: Path) -> list[Json]:
    return inputs(home) if (home / "noted").exists() else []


def of_event(home: Path, name: str) -> list[Json]:
    return [each for each in noted(home) if each["hook_event_name"] == name]


@requirement("R224")
@pytest.mark.parametrize("event", EVENTS, ids=lambda e: e.name)
def test_every_event_happens_in_a_test_through_a_real_session(event: Any) -> None:
    """Each row of the table needs a test in which clew calls a hook of the settings."""
    fronts = [
        *(TESTS / "fronts" / "headless").glob("test_*.py"),
        TESTS / "agent/compaction/test_in_headless.py",
    ]
    held = re.compile(rf'"{event.name}"')
    assert any(held.search(path.read_text("utf-8")) for path in fronts)


FORM = json.dumps({"mcpServers": {"memo": entry("rude")}})
# What ends a line where lines are read, and where keys are.
ENTER = {False: "\n", True: "\r"}


def front(home: Path, url: str, is_drawn: bool, *args: str) -> Terminal | OnScreen:
    return OnScreen(home, url, *args) if is_drawn else Terminal(home, url, *args)


def test_a_question_that_waits_for_a_user_is_told(tmp_path: Path) -> None:
    settings(tmp_path, at("Notification", note(tmp_path), matcher="permission_prompt"))
    told = ("--permission-prompt-tool", "stdio")
    with (
        serving(plan(bash("touch it")), strict=True) as server,
        Hosted(tmp_path, server.url, *told) as host,
    ):
        host.ask("initialize")
        host.say("go")
        asked = host.request("can_use_tool")
        until(lambda: bool(noted(tmp_path)))
        host.answer(asked, behavior="deny", message="no")
        host.result()
    (said,) = noted(tmp_path)
    assert said["notification_type"] == "permission_prompt"
    assert said["message"].startswith("clew needs your permission")


@pytest.mark.parametrize("is_drawn", [False, True], ids=["linear", "screen"])
def test_a_user_whom_an_answer_waits_for_is_told_of_once(tmp_path: Path, is_drawn: bool) -> None:
    hooks = at("Notification", note(tmp_path), matcher="idle_prompt")
    settings(tmp_path, hooks, messageIdleNotifThresholdMs=50)
    with serving(plan(), strict=True) as server, front(tmp_path, server.url, is_drawn) as terminal:
        terminal.expect("default")
        terminal.type(f"/help{ENTER[is_drawn]}")
        terminal.expect("@FILE")
        assert noted(tmp_path) == []
        terminal.type(f"go{ENTER[is_drawn]}")
        terminal.expect("Done.")
        until(lambda: bool(noted(tmp_path)))
        terminal.type("\x04")
        assert terminal.end() == 0
    (said,) = noted(tmp_path)
    assert said["notification_type"] == "idle_prompt"


def test_a_servers_question_and_its_answer_are_reported(tmp_path: Path) -> None:
    settings(tmp_path, at("Notification", note(tmp_path), matcher="elicitation_.*"))
    asks = {"tool": "mcp__memo__elicit", "input": {"text": "Go to a page?"}}
    call = {"content": [asks]}
    args = ("--mcp-config", FORM, "--allowedTools", "mcp__memo")
    with (
        serving(plan(call), strict=True) as server,
        front(tmp_path, server.url, True, *args) as terminal,
    ):
        terminal.expect("default")
        terminal.type("go\r")
        terminal.expect("Go to a page?")
        until(lambda: len(noted(tmp_path)) == 1)
        assert noted(tmp_path)[0]["notification_type"] == "elicitation_dialog"
        terminal.type("1")
        until(lambda: len(noted(tmp_path)) == 3)
        terminal.expect("Done.")
        terminal.type("\x04")
        assert terminal.end() == 0
    # Nobody waits for such hooks: the two come as they come.
    kinds = {one["notification_type"] for one in noted(tmp_path)[1:]}
    assert kinds == {"elicitation_response", "elicitation_complete"}


@pytest.mark.parametrize("is_drawn", [False, True], ids=["linear", "screen"])
def test_hooks_hear_how_each_session_of_a_terminal_began_and_ended(
    tmp_path: Path, is_drawn: bool
) -> None:
    settings(tmp_path, at("SessionStart", note(tmp_path)) | at("SessionEnd", note(tmp_path)))
    enter = ENTER[is_drawn]
    with serving(plan(), strict=True) as server, front(tmp_path, server.url, is_drawn) as terminal:
        terminal.expect("default")
        terminal.type(f"go{enter}")
        terminal.expect("Done.")
        (path,) = transcripts(tmp_path)
        terminal.type(f"/clear{enter}")
        until(lambda: len(noted(tmp_path)) == 3)
        terminal.type(f"/resume {path.stem}{enter}")
        until(lambda: len(noted(tmp_path)) == 5)
        terminal.type(f"/exit{enter}")
        assert terminal.end() == 0
    told = [one.get("source") or one["reason"] for one in noted(tmp_path)]
    assert told == ["startup", "clear", "clear", "resume", "resume", "prompt_input_exit"]


def test_a_session_that_was_ended_from_outside_ends_for_another_reason(tmp_path: Path) -> None:
    settings(tmp_path, at("SessionEnd", note(tmp_path)))
    with serving(plan(), strict=True) as server, front(tmp_path, server.url, False) as terminal:
        terminal.expect("> ")
        terminal.child.send_signal(signal.SIGTERM)
        assert terminal.end() == 143
    (told,) = noted(tmp_path)
    assert told["reason"] == "other"


def test_a_host_that_clears_its_session_has_its_hooks_told(tmp_path: Path) -> None:
    settings(tmp_path, at("SessionStart", note(tmp_path)) | at("SessionEnd", note(tmp_path)))
    with serving(plan(), strict=True) as server, Hosted(tmp_path, server.url) as host:
        for line in ("go", "/clear", "go"):
            host.say(line)
            host.result()
        assert host.end() == 0
    told = [one.get("source") or one["reason"] for one in noted(tmp_path)]
    assert told == ["startup", "clear", "clear", "other"]


def test_a_service_that_fails_is_reported(tmp_path: Path) -> None:
    settings(tmp_path, at("StopFailure", note(tmp_path), matcher="rate_limit|invalid_request"))
    refused = {"status": 400, "error": {"message": "no such thing"}}
    done, _ = run(tmp_path, {"scenario": 1, "answers": [refused]})
    assert done.returncode == 1
    (told,) = noted(tmp_path)
    assert told["error"] == "invalid_request"
    assert "no such thing" in told["last_assistant_message"]


# -- the model


def test_hooks_hear_of_another_model_and_may_refuse_it(tmp_path: Path) -> None:
    both = at("PreModelSwitch", note(tmp_path), matcher="claude-opus.*") | at(
        "PostModelSwitch", note(tmp_path), command("echo it is dearer now")
    )
    settings(tmp_path, both)
    with serving(plan(), strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.ask("initialize")
        host.ask("set_model", model="claude-opus-4-8")
        host.say("go")
        host.result()
        sent = server.requests[-1].body
    assert [e["hook_event_name"] for e in noted(tmp_path)] == ["PreModelSwitch", "PostModelSwitch"]
    (told, after) = noted(tmp_path)
    assert told["to_model"] == after["to_model"] == sent["model"]
    assert told["from_model"] != told["to_model"]
    assert "it is dearer now" in texts(sent["messages"])


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (
            answering("PreModelSwitch", permissionDecision="deny", permissionDecisionReason="dear"),
            "a hook blocked the model change: dear",
        ),
        (
            command("echo too dear >&2; exit 2"),
            "a hook blocked the model change: too dear",
        ),
        (
            answering("PreModelSwitch", permissionDecision="ask", permissionDecisionReason="dear"),
            "the model was not changed",
        ),
        (command("sleep 60", timeout=0.3), "no reply within 0.3 s"),
    ],
)
def test_a_model_that_a_hook_refuses_is_not_taken(tmp_path: Path, handler: Json, why: str) -> None:
    settings(tmp_path, at("PreModelSwitch", handler) | at("PostModelSwitch", note(tmp_path)))
    done, _ = run(tmp_path, plan(), prompt="/model opus")
    assert why in done.stdout + done.stderr
    assert noted(tmp_path) == []


def test_a_model_may_be_changed_once_a_user_says_so(tmp_path: Path) -> None:
    asks = answering("PreModelSwitch", permissionDecision="ask", permissionDecisionReason="dear")
    settings(tmp_path, at("PreModelSwitch", asks) | at("PostModelSwitch", note(tmp_path)))
    told = ("--permission-prompt-tool", "stdio")
    with serving(plan(), strict=True) as server, Hosted(tmp_path, server.url, *told) as host:
        host.ask("initialize")
        host.send(
            type="control_request",
            request_id="switch",
            request={"subtype": "set_model", "model": "opus"},
        )
        asked = host.request("can_use_tool")
        assert asked["request"]["tool_name"] == "SwitchModel"
        host.answer(asked, behavior="allow", updatedInput=asked["request"]["input"])
        host.until(lambda f: f["type"] == "control_response")
    assert [e["hook_event_name"] for e in noted(tmp_path)] == ["PostModelSwitch"]


# -- folders, files, settings


def test_a_folder_that_joins_is_reported(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    settings(tmp_path, at("DirectoryAdded", note(tmp_path), matcher="slash_command"))
    run(tmp_path, plan(), prompt=f"/add-dir {tmp_path / 'other'}")
    (told,) = noted(tmp_path)
    assert (told["directory"], told["source"]) == (str(tmp_path / "other"), "slash_command")


def test_a_folder_that_a_host_brings_is_reported(tmp_path: Path) -> None:
    (tmp_path / "work" / "sub").mkdir(parents=True)
    settings(tmp_path, at("DirectoryAdded", note(tmp_path), matcher="register_repo_root"))
    with serving(plan(), strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.ask("initialize")
        host.ask("register_repo_root", directory="sub")
        host.end()
    (told,) = noted(tmp_path)
    assert told["source"] == "register_repo_root"


WAITS = "for i in $(seq 1000); do [ -s {path} ] && break; sleep 0.02; done; [ -s {path} ]"


def test_files_that_hooks_watch_are_told_as_they_change(tmp_path: Path) -> None:
    """The published example: variables of a folder are read again when its .env changes."""
    (tmp_path / "work" / "sub").mkdir(parents=True)
    more = (tmp_path / "work" / "sub" / "deep.toml").resolve()
    again = (
        note(tmp_path)["command"] + """; echo "export COLOR=$(cat .env)" > "$CLAUDE_ENV_FILE" """
    )
    watches = {"hookSpecificOutput": {"hookEventName": "SessionStart", "watchPaths": [str(more)]}}
    hooks = at("FileChanged", command(again), matcher=".envrc|.env")
    hooks |= at("SessionStart", command(f"echo '{json.dumps(watches)}'"))
    hooks["FileChanged"] += at("FileChanged", note(tmp_path), matcher="deep.toml")["FileChanged"]
    settings(tmp_path, hooks)
    seen = tmp_path / "noted"
    other = f"for i in $(seq 1000); do [ $(wc -l < {seen}) = 2 ] && break; sleep 0.02; done"
    answers = plan(
        bash(f"printf red > made; mv made .env; {WAITS.format(path=seen)}; echo color $COLOR"),
        bash(f"echo x > made; mv made {more}; {other}"),
        bash("echo now $COLOR"),
    )
    _, messages = run(tmp_path, answers, "--allowedTools", "Bash")
    told = of_event(tmp_path, "FileChanged")
    work = (tmp_path / "work").resolve()
    assert [(e["file_path"], e["event"]) for e in told] == [
        (f"{work}/.env", "add"),
        (str(more), "add"),
    ]
    assert "now red" in texts(messages)


@pytest.mark.parametrize("refuses", [False, True])
def test_a_change_of_settings_counts_unless_a_hook_minds(tmp_path: Path, refuses: bool) -> None:
    handlers = [note(tmp_path), *([command("echo hands off >&2; exit 2")] if refuses else [])]
    hooks = at("ConfigChange", *handlers, matcher="user_settings")
    settings(tmp_path, hooks)
    new = {"hooks": hooks, "permissions": {"deny": ["Bash(touch *)"]}}
    answers = {"scenario": 1, "answers": [{"text": "hi"}, bash("touch it"), {"text": "done"}]}
    told = ("--allowedTools", "Bash")
    with serving(answers, strict=True) as server, Hosted(tmp_path, server.url, *told) as host:
        host.ask("initialize")
        host.say("go")
        host.result()
        settings(tmp_path, hooks, permissions=new["permissions"])
        host.say("go on")
        host.result()
    (change,) = noted(tmp_path)
    assert change["source"] == "user_settings"
    assert change["file_path"] == str(tmp_path / "config" / "settings.json")
    assert (tmp_path / "work" / "it").exists() is refuses


# -- what joins the context, and what a line becomes


def test_every_memory_file_that_joins_is_reported(tmp_path: Path) -> None:
    settings(tmp_path, at("InstructionsLoaded", note(tmp_path)))
    write(tmp_path / "work/CLAUDE.md", "Be kind.\n@more.md\n")
    write(tmp_path / "work/more.md", "Be brief.\n")
    write(tmp_path / "work/sub/CLAUDE.md", "Be quick.\n")
    write(tmp_path / "work/.claude/rules/py.md", "---\npaths: ['**/*.py']\n---\nUse types.\n")
    write(tmp_path / "work/sub/a.py", "x = 1\n")
    reads = {"content": [{"tool": "Read", "input": {"file_path": "sub/a.py"}}]}
    run(tmp_path, plan(reads))
    work = (tmp_path / "work").resolve()
    told = {e["file_path"]: e for e in of_event(tmp_path, "InstructionsLoaded")}
    assert {path.removeprefix(f"{work}/"): e["load_reason"] for path, e in told.items()} == {
        "CLAUDE.md": "session_start",
        "more.md": "include",
        "sub/CLAUDE.md": "nested_traversal",
        ".claude/rules/py.md": "path_glob_match",
    }
    assert told[f"{work}/more.md"]["parent_file_path"] == f"{work}/CLAUDE.md"
    assert told[f"{work}/.claude/rules/py.md"]["globs"] == ["**/*.py"]
    touched = {e["file_path"] for e in told.values() if "trigger_file_path" in e}
    assert touched == {f"{work}/sub/CLAUDE.md", f"{work}/.claude/rules/py.md"}
    assert told[f"{work}/sub/CLAUDE.md"]["trigger_file_path"] == f"{work}/sub/a.py"
    assert {e["memory_type"] for e in told.values()} == {"Project"}


def brings_a_skill(home: Path, *, is_told: bool = True) -> None:
    """A hook at the start that puts a skill and a command where they are looked for."""
    skill, command_file = home / "work/.claude/skills/late", home / "work/.claude/commands/later.md"
    script = home / "bring.sh"
    write(
        script,
        f"mkdir -p {skill} {command_file.parent}\n"
        f"printf -- '---\\ndescription: Comes late\\n---\\nBe late.\\n' > {skill}/SKILL.md\n"
        f"echo 'Be later still: $ARGUMENTS' > {command_file}\n",
    )
    said = {"hookSpecificOutput": {"hookEventName": "SessionStart", "reloadSkills": is_told}}
    settings(home, at("SessionStart", command(f"sh {script} && echo '{json.dumps(said)}'")))


def test_skills_that_a_hook_of_the_start_brings_are_there_for_the_first_prompt(
    tmp_path: Path,
) -> None:
    brings_a_skill(tmp_path)
    done, messages = run(tmp_path, plan())
    assert done.returncode == 0, done.stderr
    assert "late: Comes late" in json.dumps(messages)


def test_a_command_that_a_hook_of_the_start_brings_can_be_typed_at_once(tmp_path: Path) -> None:
    brings_a_skill(tmp_path)
    done, messages = run(tmp_path, plan(), prompt="/later now")
    assert done.returncode == 0, done.stderr
    assert "Be later still: now" in json.dumps(messages)


def test_hooks_of_a_turn_are_told_how_hard_the_model_thinks(tmp_path: Path) -> None:
    events = (
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "SubagentStop",
    )
    both = {}
    for event in events:
        both |= at(event, note(tmp_path))
    settings(tmp_path, both)
    agents = {"dig": {"description": "digs", "prompt": "Dig.", "effort": "max"}}
    asked = {
        "go": [
            bash("echo one"),
            uses(agent("dig", subagent_type="dig")),
            {"text": "done"},
        ],
        "dig": [{"text": "dug"}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        clew(
            tmp_path, server.url, "-p", "go", "--effort", "low", "--agents", json.dumps(agents),
            "--allowedTools", "Bash,Agent",
        )  # fmt: skip
    levels = {(e["hook_event_name"], e.get("effort", {}).get("level")) for e in noted(tmp_path)}
    assert levels == {
        ("SessionStart", None),
        ("UserPromptSubmit", None),
        ("PreToolUse", "low"),
        ("PostToolUse", "low"),
        ("Stop", "low"),
        ("SubagentStop", "max"),
    }


@pytest.mark.parametrize("refuses", [False, True])
def test_a_command_that_becomes_a_prompt_is_reported(tmp_path: Path, refuses: bool) -> None:
    context = answering("UserPromptExpansion", additionalContext="the branch is main")
    handlers = [note(tmp_path), context, *([command("echo no >&2; exit 2")] if refuses else [])]
    settings(tmp_path, at("UserPromptExpansion", *handlers, matcher="greet"))
    write(tmp_path / "work/.claude/commands/greet.md", "Greet $ARGUMENTS.\n")
    done, messages = run(tmp_path, plan(), prompt="/greet Ann")
    (told,) = noted(tmp_path)
    assert {name: told[name] for name in ("expansion_type", "command_name", "command_args")} == {
        "expansion_type": "slash_command",
        "command_name": "greet",
        "command_args": "Ann",
    }
    assert (told["command_source"], told["prompt"]) == ("projectSettings", "/greet Ann")
    if refuses:
        assert messages == []
        assert "blocked by a hook: no" in done.stdout + done.stderr
    else:
        assert "Greet Ann." in texts(messages)
        assert "the branch is main" in texts(messages)


def test_a_prompt_of_a_server_is_an_expansion_too(tmp_path: Path) -> None:
    settings(tmp_path, at("UserPromptExpansion", note(tmp_path)))
    servers = json.dumps({"mcpServers": {"memo": entry("honest")}})
    run(tmp_path, plan(), "--mcp-config", servers, prompt="/mcp__memo__review a.py")
    (told,) = noted(tmp_path)
    assert told["expansion_type"] == "mcp_prompt"


# -- what a server asks


def elicited(home: Path) -> Json:
    """Return what the server receives if no user can be asked."""
    call = {"content": [{"tool": "mcp__memo__elicit", "input": {}}]}
    _, messages = run(home, plan(call), "--mcp-config", FORM, "--allowedTools", "mcp__memo")
    (result,) = [
        block
        for message in messages
        for block in message["content"]
        if isinstance(block, dict) and block.get("type") == "tool_result"
    ]
    content = result["content"]
    said = content if isinstance(content, str) else content[0]["text"]
    found: Json = json.loads(said)
    return found


def test_hooks_may_answer_a_server_in_a_users_stead(tmp_path: Path) -> None:
    accepts = answering("Elicitation", action="accept", content={"color": "blue"})
    settings(
        tmp_path,
        at("Elicitation", note(tmp_path), accepts, matcher="memo")
        | at("ElicitationResult", note(tmp_path), matcher="memo"),
    )
    assert elicited(tmp_path) == {"action": "accept", "content": {"color": "blue"}}
    asked, answered = noted(tmp_path)
    assert (asked["mcp_server_name"], asked["message"]) == ("memo", "Which color?")
    assert asked["requested_schema"]["required"] == ["color"]
    assert (answered["action"], answered["content"]) == ("accept", {"color": "blue"})
    assert "requested_schema" not in answered


@pytest.mark.parametrize(
    ("event", "handler"),
    [
        ("Elicitation", command("exit 2")),
        ("ElicitationResult", command("exit 2")),
        ("ElicitationResult", answering("ElicitationResult", action="decline")),
    ],
)
def test_hooks_may_refuse_a_server(tmp_path: Path, event: str, handler: Json) -> None:
    accepts = answering("Elicitation", action="accept", content={"color": "blue"})
    hooks = at("Elicitation", accepts) | at("ElicitationResult", note(tmp_path))
    hooks[event][0]["hooks"].append(handler)
    settings(tmp_path, hooks)
    assert elicited(tmp_path) == {"action": "decline"}


# -- what is shown


SHOWS = 'sed \'s/.*"delta":"\\([^"]*\\)".*/\\1/\' | tr a-z A-Z'


def test_a_hook_puts_other_words_on_the_screen_and_nowhere_else(tmp_path: Path) -> None:
    answer = '{"hookSpecificOutput": {"hookEventName": "MessageDisplay", "displayContent": "%s"}}'
    loud = command(f"""printf '{answer}' "$({SHOWS})" """)
    settings(tmp_path, at("MessageDisplay", loud, note(tmp_path)))
    with serving(plan({"text": "hello there"}), strict=True) as server:
        done = clew(tmp_path, server.url, "--linear", input="one\n")
    assert "HELLO THERE" in done.stdout
    assert "hello there" not in done.stdout
    (log,) = transcripts(tmp_path)
    assert "hello there" in log.read_text("utf-8")


def test_a_program_is_given_what_was_said_and_hooks_are_told_once_a_message(tmp_path: Path) -> None:
    settings(tmp_path, at("MessageDisplay", note(tmp_path), command("exit 2")))
    done, _ = run(tmp_path, plan({"text": "hello there"}))
    assert done.stdout == "hello there\n"
    (told,) = noted(tmp_path)
    assert (told["index"], told["final"], told["delta"]) == (0, True, "hello there")
    assert told["turn_id"]
    assert told["message_id"]


# -- a folder that is prepared


@pytest.mark.parametrize(
    ("flags", "trigger"),
    [(["-p", "go", "--init"], "init"), (["-p", "go", "--maintenance"], "maintenance")],
)
def test_a_folder_is_prepared_before_anything_else(
    tmp_path: Path, flags: list[str], trigger: str
) -> None:
    hooks = at("Setup", note(tmp_path), matcher=trigger) | at("SessionStart", note(tmp_path))
    settings(tmp_path, hooks)
    with serving(plan(), strict=True) as server:
        done = clew(tmp_path, server.url, *flags)
    assert done.stdout == "Done.\n"
    assert [e["hook_event_name"] for e in noted(tmp_path)] == ["Setup", "SessionStart"]
    assert noted(tmp_path)[0]["trigger"] == trigger


def test_a_folder_can_be_prepared_and_nothing_else(tmp_path: Path) -> None:
    leave = command("""echo 'export READY=yes' >> "$CLAUDE_ENV_FILE"; touch ready; exit 2""")
    settings(tmp_path, at("Setup", leave, matcher="init"))
    with serving(plan(), strict=True) as server:
        done = clew(tmp_path, server.url, "--init-only")
        assert server.requests == []
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "work" / "ready").exists()
    assert transcripts(tmp_path) == []
