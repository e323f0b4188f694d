"""Slash commands in the real process: each answers without a model, and the session continues."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.agent.context.output_styles import WAITS
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.requirements import requirement

TODOS = [{"content": "Mend it", "status": "in_progress", "activeForm": "Mending it"}]
WORKS = {
    "scenario": 1,
    "answers": [
        {"content": [{"tool": "TodoWrite", "input": {"todos": TODOS}}]},
        {"text": "Begun."},
        {"text": "And here.", "times": "always"},
    ],
}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Hosted]:
    with serving(WORKS, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("begin the work")
        assert host.result()["result"] == "Begun."
        yield host


def shown(host: Hosted, line: str) -> str:
    host.say(line)
    result = host.result()
    text: str = result.get("result") or "".join(result.get("errors", ()))
    return text


@requirement("R217")
def test_commands_about_the_record_of_the_session(host: Hosted, tmp_path: Path) -> None:
    (path,) = transcripts(tmp_path)
    assert "begin the work" in shown(host, "/tree")
    assert "[>] Mend it" in shown(host, "/todos")
    assert '"My work"' in shown(host, "/rename My work")
    # A title is no message: it is written with what comes next, or soon.
    until(lambda: '"customTitle":"My work"' in path.read_text("utf-8"))
    assert "begin the work" in shown(host, "/search begin")
    assert "Usage: /search" in shown(host, "/search")
    assert "Usage: /rename" in shown(host, "/rename")
    page = tmp_path / "work" / "page.html"
    assert str(page) in shown(host, "/export page.html")
    assert "begin the work" in page.read_text("utf-8")
    assert page.stat().st_mode & 0o777 == 0o600
    assert "already exists" in shown(host, "/export page.html")
    assert f"clew-{path.stem[:8]}.md" in shown(host, "/export --redact")
    assert "raw.jsonl" in shown(host, "/export raw.jsonl --raw")
    assert "can't be combined" in shown(host, "/export x.md --raw --redact")


def test_a_host_is_told_of_an_unknown_command_and_the_session_continues(
    tmp_path: Path,
) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Seen.", "times": "always"}]}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("/nothing at all")
        said = host.result()
        assert (said["result"], said["is_error"], said["num_turns"]) == (
            "Unknown slash command: nothing",
            False,
            0,
        )
        assert server.requests == []
        host.say("/usr/bin/foo is broken")
        assert host.result()["result"] == "Seen."
        assert len(server.requests) == 1
        assert host.end() == 0


def test_the_tree_says_a_command_as_it_was_typed(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "commands"
    folder.mkdir(parents=True)
    (folder / "review.md").write_text("Review $ARGUMENTS", "utf-8")
    with serving({"scenario": 1, "answers": [{"text": "Done.", "times": "always"}]}) as server:
        assert clew(tmp_path, server.url, "-p", "/review the last commit").stdout == "Done.\n"
        told = clew(tmp_path, server.url, "-p", "/tree", "--continue").stdout
    assert "● /review the last commit  (" in told


def test_a_fork_continues_in_a_copy_and_leaves_the_session_as_it_is(
    host: Hosted, tmp_path: Path
) -> None:
    (path,) = transcripts(tmp_path)
    before = path.read_bytes()
    host.say("/fork ffff")
    assert "message 'ffff' not found" in "".join(host.result()["errors"])
    host.say("/fork")
    host.say("go on there")
    while host.result().get("result") != "And here.":
        pass
    assert host.end() == 0
    (other,) = (one for one in transcripts(tmp_path) if one != path)
    assert "go on there" in other.read_text("utf-8")
    assert "begin the work" in other.read_text("utf-8")
    assert "go on there" not in path.read_text("utf-8")
    assert path.read_bytes().startswith(before)


def test_commands_about_the_setup(host: Hosted, tmp_path: Path) -> None:
    assert "Effort set to high" in shown(host, "/effort high")
    assert "Effort: high" in shown(host, "/effort")
    assert '"huge"' in shown(host, "/effort huge")
    assert "default" in shown(host, "/effort auto")
    other = tmp_path / "other"
    other.mkdir()
    assert f"Added {other}" in shown(host, f"/add-dir {other}")
    assert str(other) in shown(host, "/add-dir")
    assert "not found" in shown(host, "/add-dir nowhere")
    assert "0 hooks" in shown(host, "/hooks")
    assert "0 active" in shown(host, "/doctor --offline")
    assert "does not upload" in shown(host, "/bug-report report.md")
    report = (tmp_path / "work" / "report.md").read_text("utf-8")
    assert "# The setup" in report
    assert "begin the work" not in report
    assert "sk-ant" not in report


def test_commands_about_the_screen_are_settings_wherever_they_are_typed(
    host: Hosted, tmp_path: Path
) -> None:
    settings = tmp_path / "config" / "settings.json"
    shown(host, "/vim")
    assert json.loads(settings.read_text("utf-8"))["editorMode"] == "vim"
    shown(host, "/vim")
    assert json.loads(settings.read_text("utf-8"))["editorMode"] == "normal"
    assert '"perhaps"' in shown(host, "/vim perhaps")
    assert "default (model, mode" in shown(host, "/statusline")
    assert "statusLine is not set in" in shown(host, "/statusline off")
    assert "statusLine set" in shown(host, "/statusline echo mine")
    assert "output of echo mine" in shown(host, "/statusline")
    shown(host, "/statusline off")
    assert "statusLine" not in settings.read_text("utf-8")
    own = tmp_path / "config" / "keybindings.json"
    assert str(own) in shown(host, "/keybindings")
    own.write_text("{}", "utf-8")
    assert str(own) in shown(host, "/keys")


def test_usage_says_what_is_of_the_whole_session_and_what_of_this_start(tmp_path: Path) -> None:
    slow = {"text": "Begun.", "faults": [{"at": "headers", "stall_s": 0.2}]}
    with serving({"scenario": 1, "answers": [slow]}) as server:
        assert "in this run" not in clew(tmp_path, server.url, "-p", "/usage").stdout
        assert clew(tmp_path, server.url, "-p", "begin").stdout == "Begun.\n"
        told = clew(tmp_path, server.url, "-p", "/usage", "--continue").stdout
    assert "1 response, $" in told
    assert ", 0.0 s of it in this run" in told


def test_the_effort_that_was_chosen_goes_with_the_next_request(tmp_path: Path) -> None:
    with serving(WORKS, strict=True) as server, Hosted(tmp_path, server.url) as host:
        assert "Effort set to low" in shown(host, "/effort low")
        host.say("hi")
        host.result()
        body = server.requests[0].body
    assert body["output_config"]["effort"] == "low"


def test_the_difference_is_what_git_says_and_new_files(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with serving(WORKS) as server:
        outside = clew(tmp_path, server.url, "-p", "/diff")
        assert (outside.stdout, str(work) in outside.stderr) == ("", True)
        git = ["git", "-C", str(work), "-c", "user.name=x", "-c", "user.email=x@example.com"]
        (work / "a.txt").write_text("one\n", "utf-8")
        for args in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run([*git, *args], check=True)
        assert clew(tmp_path, server.url, "-p", "/diff").stdout.strip() == "No changes"
        (work / "a.txt").write_text("two\n", "utf-8")
        (work / "b.txt").write_text("new\n", "utf-8")
        done = clew(tmp_path, server.url, "-p", "/diff")
    assert "+two" in done.stdout
    assert "new: b.txt" in done.stdout


def test_every_command_is_listed_with_what_it_does(tmp_path: Path) -> None:
    with serving(WORKS) as server:
        listed = clew(tmp_path, server.url, "-p", "/help").stdout
        with Hosted(tmp_path, server.url) as host:
            said = host.ask("initialize")["response"]["commands"]
    assert "/model" in listed
    rows = {line.split()[0][1:]: line for line in listed.splitlines() if line.startswith("  /")}
    assert set(rows) == {command["name"] for command in said}
    assert all(len(line.split()) > 2 for line in rows.values()), json.dumps(rows)


@requirement("R217")
def test_help_explains_one_command_and_says_what_is_near_to_none(tmp_path: Path) -> None:
    def said(line: str) -> str:
        done = clew(tmp_path, "http://127.0.0.1:9", "-p", line)
        assert done.returncode == (0 if done.stdout else 1), done.stderr
        return done.stdout or done.stderr

    for line in ("/help tasks", "/help /tasks", "/help bashes"):
        assert said(line).startswith(
            "/tasks [ID | stop [ID] | keep ID]\nList and manage background "
        )
        assert said(line).endswith("Aliases: /bashes\n")
    assert said("/help cost") == "/cost\nShow the cost of this session\n"
    near = "clew: Unknown command /taks. Did you mean /help tasks?\n"
    assert said("/help taks") == near
    assert said("/help zzzz") == "clew: Unknown command /zzzz. Type /help for a list.\n"
    assert "`clew login`" in said("/help login")


def test_what_a_user_set_is_not_told_to_them_again(host: Hosted) -> None:
    assert "output style learning applies from the next session on" in shown(
        host, "/output-style learning"
    )
    assert shown(host, "/config respectGitignore false").endswith("respectGitignore set")
    assert shown(host, "go on") == "And here."
    assert host.end() == 0
    assert "read again" not in json.dumps(host.frames) + host.errors()


def test_a_kind_of_agent_that_is_not_there_is_said_in_sentences(host: Hosted) -> None:
    assert all(name in shown(host, "/agents maker") for name in ("general-purpose", "Plan"))
    assert "general-purpose?" in shown(host, "/agents general-purpos")


def test_a_style_of_a_project_waits_for_trust_and_says_so(tmp_path: Path) -> None:
    styles = tmp_path / "work" / ".claude" / "output-styles"
    styles.mkdir(parents=True)
    (styles / "pirate.md").write_text("Talk like a pirate.", "utf-8")
    named = ("--settings", '{"outputStyle": "Pirate"}')
    with serving(WORKS, strict=True) as server:
        waits = clew(tmp_path, server.url, "-p", "/output-style", *named)
        chosen = clew(tmp_path, server.url, "-p", "/output-style pirate")
        clew(tmp_path, server.url, "config", "trust")
        counts = clew(tmp_path, server.url, "-p", "/output-style", *named)
    trust = WAITS
    assert waits.stderr == f'clew: outputStyle: the project\'s style "Pirate" is {trust}\n'
    assert f"project style; {trust}" in waits.stdout
    assert chosen.stderr == f'clew: the project\'s style "pirate" is {trust}\n'
    assert counts.stderr == ""
    assert "pirate (current)" in counts.stdout


def test_what_fills_the_window_is_told_in_words(host: Hosted) -> None:
    told = shown(host, "/context")
    assert "Skills  " in told
    assert "_delta" not in told
