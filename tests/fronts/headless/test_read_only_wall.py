"""The read-only sandbox in a session: which commands run in it, what it blocks, who is asked.

The commands are readers by their names, replaced by programs that do more: as if clew had misread
them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.agent.executor import WITHOUT_WALL
from clew.parts.sandbox import MISSING, NO_WALLS
from clew.permissions.session_rules import REFUSED_BARE
from clew.testing.server import serving
from tests.fronts.headless.clew_process import command, environment
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_rules_hold import settings
from tests.fronts.headless.test_sandbox import bash, said, write
from tests.fronts.terminal.terminal import Terminal
from tests.requirements import requirement
from tests.system.sandbox import no_landlock
from tests.system.sandbox.walls import can
from tests.wording import head

Json = dict[str, Any]
WORKS = can("landlock") or can("bubblewrap")
SENTENCE = "in the read-only sandbox, which blocked writing"


def reader(home: Path, script: str, *, name: str = "wc") -> str:
    """Replace a reader with another program; return the PATH with it."""
    path = write(home / "bin" / name, f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)
    return f"{path.parent}{os.pathsep}{os.environ['PATH']}"


def results(server: Any) -> list[Json]:
    return [
        block
        for message in server.requests[-1].body["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [])
        if block["type"] == "tool_result"
    ]


def run(
    home: Path,
    *answers: Json,
    args: tuple[str, ...] = (),
    without_walls: bool = False,
    words: tuple[str, ...] | None = None,
    **variables: str,
) -> tuple[subprocess.CompletedProcess[str], list[Json]]:
    plan = {"scenario": 1, "answers": [*answers, {"text": "Done.", "times": "always"}]}
    (home / "work").mkdir(exist_ok=True)
    with serving(plan, strict=True) as server:
        program = command("-p", "go", *args) if words is None else command(*words)
        if without_walls:
            program = [sys.executable, no_landlock.__file__, *program]
        done = subprocess.run(
            program,
            cwd=home / "work",
            env=environment(home, server.url) | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        return done, results(server) if words is None else []


@requirement("R220")
def test_a_command_that_nobody_was_asked_about_changes_nothing_and_says_what_it_tried(
    tmp_path: Path,
) -> None:
    outside = tmp_path / "work" / "made"
    path = reader(tmp_path, f"echo x > {outside}")
    done, told = run(tmp_path, bash("wc -l file"), PATH=path)
    assert outside.exists() is not WORKS
    assert (f"{SENTENCE} {outside}" in said(told)) is WORKS, done.stderr


@pytest.mark.parametrize("rule", ["Read", "Read(file)", "Edit(//**)"])
def test_a_rule_for_files_leaves_the_wall_and_the_environment_as_they_are(
    tmp_path: Path, rule: str
) -> None:
    outside = tmp_path / "work" / "made"
    write(tmp_path / "work" / "file", "x")
    path = reader(tmp_path, f"echo x > {outside}; echo $MY_TOKEN.")
    _, told = run(
        tmp_path, bash("wc -l file"), args=("--allowedTools", rule), PATH=path, MY_TOKEN="plum"
    )
    assert outside.exists() is not WORKS
    assert ("plum" not in said(told)) is WORKS


@pytest.mark.parametrize("more", [{"run_in_background": True}, {}])
def test_a_background_command_and_a_monitor_are_after_it_as_well(
    tmp_path: Path, more: Json
) -> None:
    outside = tmp_path / "work" / "made"
    path = reader(tmp_path, f"echo x > {outside}; echo ran")
    call = {"tool": "Monitor" if not more else "Bash", "input": {"command": "wc file"} | more}
    _, told = run(tmp_path, {"content": [call]}, PATH=path)
    assert "ran" in said(told)
    assert outside.exists() is not WORKS


def test_its_environment_holds_no_keys_but_what_settings_name(tmp_path: Path) -> None:
    write(
        tmp_path / "config" / "settings.json",
        json.dumps({"sandbox": {"allowEnvironment": ["MINE_*"]}}),
    )
    local = {"sandbox": {"allowEnvironment": ["*"]}}
    write(tmp_path / "work" / ".claude" / "settings.local.json", json.dumps(local))
    store = {"folders": [str((tmp_path / "work").resolve())]}
    write(tmp_path / "config" / "clew" / "trust.json", json.dumps(store))
    path = reader(tmp_path, "env")
    variables = {
        "PATH": path,
        "MY_TOKEN": "token-1",
        "MINE_1": "named-2",
        "BASH_ENV": "/x",
        "LC_ALL": "C",
    }
    done, told = run(tmp_path, bash("wc"), **variables)
    if WORKS:
        assert "token-1" not in said(told)
        assert "BASH_ENV" not in said(told)
    assert "MINE_1=named-2" in said(told)
    assert "LC_ALL=C" in said(told)
    assert "sandbox.allowEnvironment: ignored because" in done.stderr
    # One that was approved has the user's environment without the keys of clew.
    _, told = run(tmp_path, bash("wc; touch x"), args=("--allowedTools", "Bash"), **variables)
    assert "MY_TOKEN=token-1" in said(told)
    assert "sk-ant-test" not in said(told)


def test_a_file_that_rules_deny_is_not_read_though_it_came_later(tmp_path: Path) -> None:
    rules = {"permissions": {"deny": ["Read(**/.env)"], "allow": ["Edit"]}}
    write(tmp_path / "config" / "settings.json", json.dumps(rules))
    path = reader(tmp_path, "cat sub/.en[v] ../.ssh/id")
    write(tmp_path / ".ssh" / "id", "ssh-secret-1")
    (tmp_path / "work" / "sub").mkdir(parents=True)
    made = "mkdir -p sub && echo env-secret-2 > sub/.env"
    args = ("--allowedTools", "Bash(mkdir *)", "Bash(echo *)")
    _, told = run(tmp_path, bash("wc"), bash(made), bash("wc"), args=args, PATH=path)
    assert len(told) == 3
    (tmp_path / "work" / "sub" / ".env").write_text("env-secret-2", "utf-8")
    _, told = run(tmp_path, bash("wc"), PATH=path)
    if WORKS:
        assert "secret" not in said(told)
        assert "blocked reading" in said(told)


@pytest.mark.parametrize("says_yes", [True, False])
def test_a_host_is_asked_whether_it_may_run_without_the_wall(
    tmp_path: Path, says_yes: bool
) -> None:
    outside = tmp_path / "work" / "made"
    path = reader(tmp_path, f"echo x > {outside} && echo written")
    plan = {"scenario": 1, "answers": [bash("wc"), {"text": "Done.", "times": "always"}]}
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--permission-prompt-tool", "stdio", PATH=path) as host,
    ):
        host.say("go")
        if WORKS:
            asked = host.request("can_use_tool")
            assert asked["request"]["tool_name"] == "Bash"
            assert WITHOUT_WALL in json.dumps(asked["request"])
            if says_yes:
                host.answer(asked, behavior="allow", updatedInput=asked["request"]["input"])
            else:
                host.answer(asked, behavior="deny", message="no")
        host.result()
        assert host.end() == 0
        told = said(results(server))
    assert outside.exists() is (says_yes or not WORKS)
    assert (SENTENCE in told) is (WORKS and not says_yes)


def test_nobody_is_asked_in_mode_dontask(tmp_path: Path) -> None:
    outside = tmp_path / "work" / "made"
    path = reader(tmp_path, f"echo x > {outside}")
    plan = {"scenario": 1, "answers": [bash("wc"), {"text": "Done.", "times": "always"}]}
    args = ("--permission-prompt-tool", "stdio", "--permission-mode", "dontAsk")
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, *args, PATH=path) as host,
    ):
        host.say("go")
        host.result()
        assert host.end() == 0
        assert (SENTENCE in said(results(server))) is WORKS
        assert not [f for f in host.frames if f["type"] == "control_request"]
    assert outside.exists() is not WORKS


def test_in_the_terminal_a_yes_runs_it_again_without_the_wall(tmp_path: Path) -> None:
    outside = tmp_path / "work" / "made"
    path = reader(tmp_path, f"echo x > {outside} && echo written")
    plan = {"scenario": 1, "answers": [bash("wc"), {"text": "Done.", "times": "always"}]}
    with (
        serving(plan, strict=True) as server,
        Terminal(tmp_path, server.url, "go", PATH=path) as terminal,
    ):
        if WORKS:
            terminal.expect(WITHOUT_WALL)
            terminal.type("y\n")
        terminal.expect("Done.")
        terminal.expect("> ")
        terminal.type("\x04")
        terminal.end()
    assert outside.exists()


def test_where_no_wall_can_be_had_the_start_says_so(tmp_path: Path) -> None:
    fake = tmp_path / "bin"
    fake.mkdir()
    # Every program but bwrap.
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*") if Path(folder).is_dir() else ():
            if program.name != "bwrap" and not (fake / program.name).exists():
                (fake / program.name).symlink_to(program)
    done, _ = run(tmp_path, bash("wc"), without_walls=True, PATH=str(fake))
    assert NO_WALLS in done.stderr
    done, _ = run(tmp_path, bash("wc"), PATH=str(fake))
    assert (NO_WALLS in done.stderr) is not can("landlock")


def test_a_wall_that_turns_out_not_to_stand_is_not_relied_on(tmp_path: Path) -> None:
    """With a broken bwrap and no Landlock, the first command finds out, and is judged again."""
    path = reader(tmp_path, "echo 'not permitted' >&2; exit 1", name="bwrap")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes").write_text("some words\n", "utf-8")
    look = bash("sort notes | uniq -c")
    done, told = run(tmp_path, look, look, without_walls=True, PATH=path)
    assert NO_WALLS not in done.stderr
    for result in told:
        assert "the sandbox is not available" in said([result])
    _, (allowed,) = run(tmp_path, look, PATH=path)
    assert ("1 some words" in said([allowed])) is can("landlock")


def test_of_the_variables_that_hooks_left_it_finds_those_that_are_passed(tmp_path: Path) -> None:
    leave = """echo 'export MY_TOKEN=token-1 VIRTUAL_ENV=/venv' >> "$CLAUDE_ENV_FILE" """
    hooks = {"SessionStart": [{"hooks": [{"type": "command", "command": leave}]}]}
    write(tmp_path / "config" / "settings.json", json.dumps({"hooks": hooks}))
    path = reader(tmp_path, "env")
    _, told = run(tmp_path, bash("wc"), PATH=path)
    assert "VIRTUAL_ENV=/venv" in said(told)
    assert ("token-1" in said(told)) is not WORKS


def test_a_yes_to_a_search_does_not_show_what_a_rule_denies(tmp_path: Path) -> None:
    """The sandbox is off, but the read-only sandbox confines it anyway."""
    rules = {"permissions": {"deny": ["Read(.env)"]}}
    write(tmp_path / "config" / "settings.json", json.dumps(rules))
    write(tmp_path / "work" / ".env", "plum=hunter2\n")
    write(tmp_path / "work" / "a.py", "plum = 1\n")
    calls = [bash("grep -r plum ."), bash("grep -r plum . && echo x > made")]
    plan = {"scenario": 1, "answers": [*calls, {"text": "Done.", "times": "always"}]}
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--permission-prompt-tool", "stdio") as host,
    ):
        host.say("go")
        asked = host.request("can_use_tool")
        assert "files that Read(.env) denies" in json.dumps(asked["request"])
        host.answer(asked, behavior="allow", updatedInput=asked["request"]["input"])
        host.answer(host.request("can_use_tool"), behavior="deny", message="no")
        host.result()
        assert host.end() == 0
        told = said(results(server)[:1])
    assert "plum = 1" in told
    assert ("hunter2" not in told) is WORKS
    assert ("blocked reading" in told) is WORKS


def test_a_variable_does_not_lead_cd_elsewhere(tmp_path: Path) -> None:
    for folder in (tmp_path / "work", tmp_path / "other"):
        write(folder / "sub" / "file", f"of {folder.name}")
    startup = write(tmp_path / "startup", f"CDPATH={tmp_path / 'other'}")
    more = {"CDPATH": str(tmp_path / "other"), "BASH_ENV": str(startup)}
    lines = [bash("cd sub && cat file && cd .."), bash("cd sub; cat file; touch x")]
    _, told = run(tmp_path, *lines, args=("--allowedTools", "Bash"), **more)
    assert [said([one]) for one in told] == ['"of work"', '"of work"']


def test_cd_goes_up_from_the_real_folder_of_a_session_begun_through_a_link(tmp_path: Path) -> None:
    for folder in (tmp_path / "work", tmp_path / "other" / "work"):
        write(folder / "file", f"of {folder.parent.name}")
    (tmp_path / "other" / "here").symlink_to(tmp_path / "work")
    line = bash("cd ../work && cat file")
    _, told = run(tmp_path, line, PWD=str(tmp_path / "other" / "here"))
    assert [said([one]) for one in told] == [f'"of {tmp_path.name}"']


def test_a_failed_command_says_once_which_variables_it_did_not_get(tmp_path: Path) -> None:
    path = reader(tmp_path, 'echo "${MY_SETTING:?is not set}"')
    _, told = run(tmp_path, bash("wc a"), bash("wc b"), PATH=path, MY_SETTING="x", OTHER_ONE="y")
    first, second = (said([one]) for one in told)
    assert ("do not receive these variables: MY_SETTING (the user" in first) is WORKS
    assert head(MISSING) not in second
    assert "OTHER_ONE" not in first


def test_always_is_offered_where_the_wall_blocked_a_line(tmp_path: Path) -> None:
    outside = tmp_path / "work" / "made"
    path = reader(tmp_path, f"echo x >> {outside} && echo written")
    answers = [bash("wc"), bash("wc"), {"text": "Done.", "times": "always"}]
    with (
        serving({"scenario": 1, "answers": answers}, strict=True) as server,
        Terminal(tmp_path, server.url, "go", PATH=path) as terminal,
    ):
        if WORKS:
            terminal.expect(WITHOUT_WALL)
            terminal.expect("in this session for Bash(wc)")
            terminal.type("s\n")
        terminal.expect("Done.")
        terminal.expect("> ")
        terminal.type("\x04")
        terminal.end()
    assert outside.read_text("utf-8") == "x\nx\n"


def test_a_bare_repository_that_nobody_trusts_is_named_at_the_start(tmp_path: Path) -> None:
    work = tmp_path / "work"
    subprocess.run(["git", "init", "-q", "--bare", str(work)], check=True)
    done, told = run(tmp_path, bash("git log"))
    assert REFUSED_BARE in done.stderr
    store = {"folders": [str(work.resolve())]}
    write(tmp_path / "config" / "clew" / "trust.json", json.dumps(store))
    done, told = run(tmp_path, bash("git rev-parse --is-bare-repository"))
    assert "bare repository" not in done.stderr
    assert said(told) == '"true"'


COMMANDS = ["touch made", "touch made; sed -n p a.py", "sed -n p a.py", "echo x > made"]


@pytest.mark.parametrize("mode", ["default", "acceptEdits"])
@pytest.mark.parametrize("command", COMMANDS)
def test_where_no_sandbox_works_after_all_only_the_short_list_runs_unasked(
    tmp_path: Path, command: str, mode: str
) -> None:
    off = {"landlock": False, "bubblewrap": False, "seatbelt": False}
    settings(tmp_path, {"features": off, "permissions": {"defaultMode": mode}})
    done, told = run(tmp_path, bash(command))
    assert "needs the user's approval" in said(told), done.stderr
    assert not (tmp_path / "work" / "made").exists()
