"""Input to `clew -p` other than prompts, with the real process."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.agent.intake import AS_TEXT, NO_FILE
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.requirements import requirement

PLAN = {"scenario": 1, "answers": [{"text": "Seen.", "times": "always"}]}


def run(home: Path, *args: str, **more: Any) -> tuple[Any, list[dict[str, Any]]]:
    with serving(PLAN, strict=True) as server:
        done = clew(home, server.url, "-p", *args, **more)
        return done, [request.body for request in server.requests]


def words(body: dict[str, Any]) -> str:
    return "\n".join(
        block["text"]
        for message in body["messages"]
        if message["role"] == "user"
        for block in (
            [{"text": message["content"]}]
            if isinstance(message["content"], str)
            else message["content"]
        )
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "a.txt").write_text("one\ntwo\nthree\n", "utf-8")
    (work / "my file.txt").write_text("spaced\n", "utf-8")
    (work / "sub" / "x.py").write_text("", "utf-8")
    return tmp_path


@requirement("R211", "R212")
def test_a_prompt_brings_along_the_files_it_names(home: Path) -> None:
    done, (body,) = run(home, 'look at @a.txt#L2-3, @sub and @"my file.txt"; not @nobody.')
    assert (done.returncode, done.stdout, done.stderr) == (0, "Seen.\n", "")
    said = words(body)
    assert "2\ttwo\n3\tthree" in said
    assert "1\tone" not in said
    assert "x.py" in said
    assert "spaced" in said
    assert said.endswith("not @nobody.")
    assert all(set(message) == {"role", "content"} for message in body["messages"])
    entries = [json.loads(line) for line in transcripts(home)[0].read_text("utf-8").splitlines()]
    files = [e["attachment"] for e in entries if e.get("attachment", {}).get("type") == "file"]
    assert [file["displayPath"] for file in files] == ["a.txt", "my file.txt"]
    assert files[0]["content"]["file"]["startLine"] == 2


def test_a_file_that_was_named_may_be_edited_without_reading_it_again(home: Path) -> None:
    edit = {"file_path": "a.txt", "old_string": "two", "new_string": "2"}
    plan = {"scenario": 1, "answers": [{"content": [{"tool": "Edit", "input": edit}]}, {"text": "Done."}]}  # fmt: skip
    with serving(plan, strict=True) as server:
        clew(home, server.url, "-p", "change @a.txt", "--permission-mode", "acceptEdits")
    assert (home / "work" / "a.txt").read_text("utf-8") == "one\n2\nthree\n"


def test_a_file_that_may_not_be_read_is_not_brought_along(home: Path) -> None:
    done, (body,) = run(home, "look at @a.txt and @sub", "--disallowedTools", "Read(a.txt)")
    assert "@a.txt was not read" in done.stderr
    assert "three" not in words(body)
    done, (body,) = run(home, "what is @/etc/hostname")
    assert "was not read" in done.stderr


@requirement("R211")
def test_a_line_for_the_shell_runs_where_rules_allow_it_and_the_model_sees_it(home: Path) -> None:
    done, (body,) = run(home, "!echo hi; echo no >&2")
    assert done.stdout == "Seen.\n"
    said = words(body)
    assert "<bash-input>echo hi; echo no >&2</bash-input>" in said
    assert "<bash-stdout>hi\nno</bash-stdout><bash-stderr></bash-stderr>" in said
    log = transcripts(home)[0].read_text("utf-8")
    assert '"lastPrompt":"! echo hi; echo no >&2"' in log


def test_a_line_for_the_shell_that_fails_is_seen_as_such(home: Path) -> None:
    _, (body,) = run(home, "!ls nowhere")
    assert "<bash-stdout></bash-stdout><bash-stderr>Exit code 2" in words(body)


def test_a_line_for_the_shell_that_nobody_permits_does_not_run(home: Path) -> None:
    done, bodies = run(home, "!touch made")
    assert done.returncode == 1
    assert "did not run" in done.stderr
    assert AS_TEXT in done.stderr
    assert bodies == []
    assert not (home / "work" / "made").exists()


def test_what_is_piped_in_is_text_whatever_it_begins_with(home: Path) -> None:
    _, (body,) = run(home, input="!touch made\n@a.txt\n")
    assert words(body).endswith("!touch made\n@a.txt")
    assert not (home / "work" / "made").exists()
    _, (body,) = run(home, "what is this", input="@a.txt")
    assert words(body) == "what is this\n@a.txt"
    done, bodies = run(home, "!cat", input="words")
    assert (done.returncode, bodies) == (1, [])
    assert "accepts no piped input" in done.stderr


def test_commands_answer_without_a_model(home: Path) -> None:
    done, bodies = run(home, "/help")
    assert (done.returncode, bodies) == (0, [])
    assert "/context" in done.stdout
    done, _ = run(home, input="/status\n")
    assert str(home / "work") in done.stdout
    assert transcripts(home) == []


def test_commands_tell_about_the_session_that_continues_and_leave_a_note_in_it(home: Path) -> None:
    run(home, "hello")
    done, bodies = run(home, "--continue", "/cost", "--output-format", "json")
    said = json.loads(done.stdout)
    assert (said["is_error"], said["num_turns"], bodies) == (False, 0, [])
    assert "claude-sonnet-5-5" in said["result"]
    for command, shown in (("/context", "System prompt"), ("/usage", "1 response, $"), ("/permissions", "mode"), ("/memory", "/init creates"), ("/config", "0 of ")):  # fmt: skip
        assert shown in run(home, "--continue", command)[0].stdout
    _, (body,) = run(home, "--continue", "and now")
    assert "local-command" not in json.dumps(body)
    assert "<command-name>/cost</command-name>" in transcripts(home)[0].read_text("utf-8")


def test_a_setting_is_set_and_a_wrong_one_is_refused_with_its_name(home: Path) -> None:
    done, _ = run(home, "/config model opus")
    assert "model set" in done.stdout
    assert "model" in run(home, "/config model")[0].stdout
    assert run(home, "/status")[0].stdout.count("opus")
    done, _ = run(home, "/config permissions.defaultMode sideways")
    assert done.returncode == 1
    assert "permissions.defaultMode" in done.stderr


@requirement("R211", "R212")
def test_a_file_that_is_not_there_is_said_and_the_prompt_continues(home: Path) -> None:
    done, (body,) = run(home, 'read @nofile.txt, @src/x.py#L3 and @"no file"; ask @someone')
    assert (done.returncode, done.stdout) == (0, "Seen.\n")
    said = done.stderr.splitlines()
    assert [line.split(": ")[1] for line in said] == ["@nofile.txt", "@src/x.py#L3", "@no file"]
    assert all(NO_FILE in line for line in said)
    assert words(body).startswith("read @nofile.txt,")


def test_what_a_command_file_names_in_vain_is_nothing_a_user_said(home: Path) -> None:
    folder = home / "config" / "commands"
    folder.mkdir(parents=True)
    (folder / "check.md").write_text("Check with @types/node: $ARGUMENTS", "utf-8")
    done, (body,) = run(home, "/check @gone.txt")
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == ["@gone.txt"]
    assert words(body).endswith("Check with @types/node: @gone.txt")


def test_what_needs_a_user_says_so_and_a_path_begins_a_prompt(home: Path) -> None:
    done, bodies = run(home, "/clear")
    assert (done.returncode, bodies) == (1, [])
    assert "requires an interactive session" in done.stderr
    for prompt in ("/tmp is full, why?", "/usr/bin/foo is broken", " /nothing"):
        _, (body,) = run(home, prompt)
        assert words(body).strip() == prompt.strip()


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("/nothing", "Type /help"),
        ("/usge now", "Did you mean /usage?"),
        ("/login", "Run `clew login`"),
    ],
)
def test_a_command_that_nobody_has_is_no_prompt(home: Path, line: str, hint: str) -> None:
    done, bodies = run(home, line)
    assert (done.returncode, done.stdout, bodies) == (1, "", [])
    assert f"Unknown command {line.split()[0]}. {hint}" in done.stderr
    done, bodies = run(home, input=f"{line}\n")
    assert (done.returncode, bodies) == (1, [])
    _, (body,) = run(home, "--disable-slash-commands", line)
    assert words(body) == line
    assert transcripts(home) != []


def test_a_note_on_the_command_line_goes_to_the_memory_file_and_costs_nothing(home: Path) -> None:
    done, bodies = run(home, "# Use tabs.")
    assert (done.returncode, bodies) == (0, [])
    assert "Use tabs." in (home / "work" / "CLAUDE.md").read_text("utf-8")


def test_a_piped_heading_and_a_text_of_several_lines_are_prompts(home: Path) -> None:
    assert len(run(home, input="# Use tabs.")[1]) == 1
    assert len(run(home, "# Task\nFix it.")[1]) == 1
    assert not (home / "work" / "CLAUDE.md").exists()
