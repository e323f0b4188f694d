"""Line mode in a real terminal: prompt, stream, permissions, interrupts, resuming."""

import json
import os
import signal
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.terminal.terminal import Terminal
from tests.requirements import requirement

HELLO = {"scenario": 1, "answers": [{"text": "Hello!", "times": "always"}]}
WRITES = {
    "scenario": 1,
    "answers": [
        {"content": [{"tool": "Write", "input": {"file_path": "x.txt", "content": "new\n"}}]},
        {"when": {"tool_result": "Write"}, "text": "So be it."},
    ],
}
NEVER_ENDS = {
    "scenario": 1,
    "answers": [
        {
            "content": ["A whole thought.", "And one that never ends"],
            "faults": [{"after_events": 8, "stall_s": "forever"}],
        },
        {"text": "Here again.", "times": "always"},
    ],
}


def test_prompt_answer_prompt_and_the_way_back(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("hi\n")
        terminal.expect("Hello!")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
        assert f"clew --resume {transcripts(tmp_path)[0].stem}" in terminal.seen


def test_a_search_finds_what_was_said_and_not_what_was_searched(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("where is the gold\n")
        terminal.expect("Hello!")
        for word in ("gold", "gold", "nowhere", "nowhere"):
            terminal.expect("> ")
            terminal.type(f"/search {word}\n")
            terminal.expect(" user: where is the gold" if word == "gold" else "no matches")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    found = clew(tmp_path, server.url, "sessions", "search", "gold", "--json")
    assert [hit["type"] for hit in json.loads(found.stdout)["hits"]] == ["user"]


def test_a_session_that_nobody_spoke_in_leaves_nothing(tmp_path: Path) -> None:
    with serving(HELLO) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("exit\n")
        assert terminal.end() == 0
        assert "--resume" not in terminal.seen
    assert transcripts(tmp_path) == []


@requirement("R145")
@pytest.mark.parametrize(("answer", "exists"), [("y", True), ("n", False), ("use y.txt", False)])
def test_a_person_is_asked_and_obeyed(tmp_path: Path, answer: str, exists: bool) -> None:
    with serving(WRITES, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("write it\n")
        terminal.expect("? Create")
        terminal.expect("content: new")
        terminal.expect("instead: ")
        terminal.type(f"{answer}\n")
        terminal.expect("> " if answer == "n" else "So be it.")
    assert (tmp_path / "work" / "x.txt").exists() is exists
    if answer == "use y.txt":
        assert "use y.txt" in str(server.requests[1].body["messages"][-1])


@requirement("R054", "R070")
@pytest.mark.parametrize("key", ["\x1b", "\x03"])
def test_escape_and_ctrl_c_stop_the_turn_and_keep_what_was_said(tmp_path: Path, key: str) -> None:
    with serving(NEVER_ENDS, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("think\n")
        terminal.expect("A whole thought.")
        if key == "\x03":
            terminal.child.send_signal(signal.SIGINT)
        else:
            terminal.type(key)
        terminal.expect("Interrupted")
        terminal.expect("> ")
        terminal.type("go on\n")
        terminal.expect("Here again.")
        said = str(server.requests[1].body["messages"])
    assert "A whole thought." in said
    assert "[Request interrupted by user]" in said


@requirement("R070")
def test_ctrl_c_stops_a_line_for_the_shell(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("!echo begun; sleep 600\n")
        terminal.expect("! echo begun")
        terminal.child.send_signal(signal.SIGINT)
        terminal.expect("Cancelled")
        terminal.expect("> ")
        terminal.type("hi\n")
        terminal.expect("Hello!")
        assert "sleep" not in str(server.requests[-1].body["messages"])


@requirement("R070", "W6")
def test_the_second_ctrl_c_of_a_turn_ends_the_session_and_keeps_what_was_said(
    tmp_path: Path,
) -> None:
    with serving(NEVER_ENDS, strict=True) as server:
        with Terminal(tmp_path, server.url) as terminal:
            terminal.expect("> ")
            terminal.type("think\n")
            terminal.expect("A whole thought.")
            terminal.child.send_signal(signal.SIGINT)
            terminal.expect("Interrupted")
            terminal.child.send_signal(signal.SIGINT)
            assert terminal.end() == 130
        assert "A whole thought." in transcripts(tmp_path)[0].read_text("utf-8")


@requirement("R269")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_closed_terminal_and_a_kill_end_in_a_defined_state(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with serving(NEVER_ENDS, strict=True) as server:
        with Terminal(tmp_path, server.url) as terminal:
            terminal.expect("> ")
            terminal.type("think\n")
            terminal.expect("A whole thought.")
            terminal.child.send_signal(number)
            assert terminal.end() == code
        assert "A whole thought." in transcripts(tmp_path)[0].read_text("utf-8")
        done = clew(tmp_path, server.url, "-p", "go on", "--continue")
    assert done.stdout == "Here again.\n"


@requirement("R269")
@pytest.mark.parametrize("signalled", [False, True])
@pytest.mark.parametrize("during", ["the prompt", "a turn", "a question"])
def test_a_terminal_that_is_gone_ends_in_a_defined_state(
    tmp_path: Path, during: str, signalled: bool
) -> None:
    plan = WRITES if during == "a question" else NEVER_ENDS
    with serving(plan, strict=True) as server:
        with Terminal(tmp_path, server.url, columns=80) as terminal:
            terminal.expect("> ")
            if during != "the prompt":
                terminal.type("think\n")
                terminal.expect("instead: " if during == "a question" else "A whole thought.")
            terminal.hang_up()
            if signalled:
                terminal.child.send_signal(signal.SIGHUP)
            assert terminal.child.wait(30) == 129
        if during == "a turn":
            assert "A whole thought." in transcripts(tmp_path)[0].read_text("utf-8")


@pytest.mark.parametrize("columns", [80, 40, 23])
def test_words_of_the_model_are_broken_between_words(tmp_path: Path, columns: int) -> None:
    text = (
        "Ariadne gave a clew of thread to Theseus. " * 5
        + "\n\n    indented as code is\n- "
        + "so " * 50
    )
    call = {"content": [text, {"tool": "Bash", "input": {"command": f"echo {'some words ' * 9}"}}]}
    plan = {"scenario": 1, "answers": [call, {"text": text}]}
    with (
        serving(plan, strict=True) as server,
        Terminal(tmp_path, server.url, "--allowedTools", "Bash", columns=columns) as terminal,
    ):
        terminal.expect("> ")
        terminal.type("tell\n")
        terminal.expect("\x07")
        terminal.type("\x04")
        assert terminal.end() == 0
    # What the session is called is one word, and left whole.
    lines = terminal.all.replace("\x07", "").split("\r\n")
    assert [line for line in lines if len(line) > columns and " " in line.strip()] == []
    said = " ".join(terminal.all.split())
    assert said.count(" ".join(text.split())) == 2
    assert "\r\n    indented" in terminal.all
    assert "some words " * 9 in " ".join(terminal.all.split()).replace("│ ", "")


def test_words_typed_meanwhile_reach_the_model_in_the_same_turn(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Bash", "input": {"command": "head -1 pipe"}}]},
            {"when": {"tool_result": "Bash"}, "text": "I heard you."},
        ],
    }
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work" / "pipe")
    with (
        serving(plan, strict=True) as server,
        Terminal(tmp_path, server.url, "--allowedTools", "Bash(head:*)") as terminal,
    ):
        terminal.expect("> ")
        terminal.type("wait\n")
        terminal.expect("● Bash")
        terminal.type("and be quick\n")
        terminal.expect("and be quick")
        (tmp_path / "work" / "pipe").write_text("go\n", "utf-8")
        terminal.expect("I heard you.")
        assert "and be quick" in str(server.requests[1].body["messages"])


WAITS = {
    "scenario": 1,
    "answers": [
        {"content": [{"tool": "Bash", "input": {"command": "head -1 pipe"}}]},
        {"when": {"tool_result": "Bash"}, "text": "I waited."},
        {"text": "Heard: so be it.", "times": "always"},
    ],
}
HEAD = ("--allowedTools", "Bash(head:*)")


def test_commands_typed_during_a_turn_are_done_and_the_model_does_not_hear_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work" / "pipe")
    with (
        serving(WAITS, strict=True) as server,
        Terminal(tmp_path, server.url, *HEAD) as terminal,
    ):
        terminal.expect("> ")
        terminal.type("wait\n")
        terminal.expect("● Bash")
        terminal.type("/status\n")
        terminal.expect("claude-sonnet")
        terminal.expect(server.url)
        terminal.type("/model\n")
        terminal.expect("[will run when the turn ends]")
        (tmp_path / "work" / "pipe").write_text("go\n", "utf-8")
        terminal.expect("I waited.")
        terminal.expect("Select a model (number; Enter to cancel): ")
        terminal.type("\n")
        terminal.expect("> ")
        assert len(server.requests) == 2
        assert "/status" not in str(server.requests[1].body["messages"])
        terminal.type("exit\n")
        assert terminal.end() == 0


def test_a_theme_is_set_by_its_name(tmp_path: Path) -> None:
    with (
        serving({"scenario": 1, "answers": []}) as server,
        Terminal(tmp_path, server.url, *HEAD) as terminal,
    ):
        terminal.expect("> ")
        terminal.type("/theme\n")
        terminal.expect("Dark, color-blind safe")
        terminal.expect("Choose a theme (number; Enter to cancel): ")
        terminal.type("\n")
        terminal.expect("> ")
        terminal.type("/theme plain\n")
        terminal.expect("theme set")
        terminal.type("exit\n")
        assert terminal.end() == 0
    (place,) = tmp_path.rglob("settings.json")
    assert '"theme": "plain"' in place.read_text("utf-8")


def test_words_that_a_turn_ended_without_are_answered_next_and_after_a_stop_given_back(
    tmp_path: Path,
) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            {"content": ["One thought."], "faults": [{"after_events": 4, "stall_s": 2}]},
            {"text": "So be it."},
            {"content": ["Another."], "faults": [{"after_events": 4, "stall_s": "forever"}]},
        ],
    }
    with serving(plan, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("think\n")
        terminal.expect("One")
        terminal.type("and quickly\n")
        terminal.expect("So be it.")
        assert "and quickly" in str(server.requests[1].body["messages"])
        terminal.expect("> ")
        terminal.type("again\n")
        terminal.expect("Another")
        terminal.type("something else\n")
        terminal.expect("something else")
        terminal.type("\x1b")
        terminal.expect("[not sent: something else]")


def test_each_turn_says_whose_it_is_and_a_bell_says_that_it_ended(tmp_path: Path) -> None:
    with serving(WRITES, strict=True) as server:
        with Terminal(tmp_path, server.url) as terminal:
            terminal.expect("You> ")
            terminal.type("write it\n")
            terminal.expect("\x07")
            terminal.expect("anything else = ")
            terminal.type("y\n")
            terminal.expect("clew: So be it.")
            terminal.expect("\x07")
            terminal.expect("You> ")
            terminal.type("\x04")
            assert terminal.end() == 0
        off = tmp_path / "config" / "settings.json"
        off.write_text('{"preferredNotifChannel": "notifications_disabled"}', "utf-8")
        with Terminal(tmp_path, server.url, "--continue") as terminal:
            terminal.expect("You> write it")
            terminal.expect("clew: So be it.")
            terminal.type("/status\n")
            terminal.expect("claude-sonnet")
            assert "\x07" not in terminal.seen
            terminal.type("\x04")
            assert terminal.end() == 0
        piped = clew(tmp_path, server.url, "--linear", input="/status\n")
    assert "\x07" not in piped.stdout


def test_lines_of_a_pipe_are_one_prompt_after_another(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        done = clew(tmp_path, server.url, "--linear", input="one\ntwo\n")
        prompts = [request.body["messages"] for request in server.requests]
    assert done.returncode == 0
    assert done.stdout.count("Hello!") == 2
    assert [len([m for m in p if m["role"] == "user"]) for p in prompts] == [1, 2]


def test_control_characters_of_the_model_do_not_reach_the_terminal(tmp_path: Path) -> None:
    evil = {"scenario": 1, "answers": [{"text": "a\x1b]0;owned\x07b"}]}
    with serving(evil) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("hi\n")
        terminal.expect("a\\x1b]0;owned\\x07b")


@pytest.mark.parametrize(
    ("sign", "shown"), [("\x1b[2K", "\\x1b[2K"), ("\r", "\\x0d"), ("\u202e", "\\u202e")]
)
def test_a_command_shows_the_same_signs_when_it_is_asked_about_and_afterwards(
    tmp_path: Path, sign: str, shown: str
) -> None:
    asked = {"content": [{"tool": "Bash", "input": {"command": f"touch a{sign}b"}}]}
    plan = {"scenario": 1, "answers": [asked, {"text": "Done with it."}]}
    with serving(plan, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect(f"command: touch a{shown}b")
        terminal.expect("instead: ")
        terminal.type("y\n")
        terminal.expect(f"touch a{shown}b")
        terminal.expect("Done with it.")


def test_a_compound_is_asked_about_with_the_verdict_on_each_part(tmp_path: Path) -> None:
    command = "echo hi && touch a.txt && cd sub && git status"
    answers = [{"content": [{"tool": "Bash", "input": {"command": command}}]}, {"text": "Done."}]
    with (
        serving({"scenario": 1, "answers": answers}) as server,
        Terminal(tmp_path, server.url, columns=120) as terminal,
    ):
        terminal.expect("You> ")
        terminal.type("go\n")
        terminal.expect("  Parts of the command:\r\n    allowed: echo hi: read-only\r\n")
        terminal.expect("    needs approval: touch a.txt: changes files\r\n")
        terminal.expect("    needs approval: git status: runs git in another folder")
        terminal.type("n\n")
        terminal.expect("Denied")


def test_a_rule_that_a_person_adds_holds_from_the_next_turn_on(tmp_path: Path) -> None:
    look = {"content": [{"tool": "Read", "input": {"file_path": "a.txt"}}]}
    plan = {"scenario": 1, "answers": [look, {"text": "One."}, look, {"text": "Two."}]}
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("alpha\n", "utf-8")
    with serving(plan, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("look\n")
        terminal.expect("One.")
        terminal.expect("> ")
        done = clew(
            tmp_path, server.url, "permissions", "add", "--list", "deny", "--scope", "user",
            "Read(a.txt)",
        )  # fmt: skip
        assert done.returncode == 0
        terminal.type("look\n")
        terminal.expect("settings were reloaded")
        terminal.expect("Two.")
        first, second = (server.requests[i].body["messages"][-1]["content"][0] for i in (1, 3))
    assert "alpha" in first["content"]
    assert "denied by Read(a.txt)" in second["content"]


def touches(*names: str, together: bool = False) -> dict[str, object]:
    """A model that creates empty files, one call after the other or all in one response."""
    uses = [{"tool": "Bash", "input": {"command": f"touch {name}"}} for name in names]
    rounds = [uses] if together else [[use] for use in uses]
    done = {"text": "Done.", "times": "always"}
    return {"scenario": 1, "answers": [*({"content": calls} for calls in rounds), done]}


@pytest.mark.parametrize("together", [False, True])
def test_a_yes_for_the_session_is_asked_for_once(tmp_path: Path, together: bool) -> None:
    plan = touches("one", "two", "three", together=together)
    with serving(plan, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect("s = Yes, and don't ask again this session for Bash(touch *)")
        terminal.expect("instead: ")
        terminal.type("s\n")
        terminal.expect("Done.")
        assert "y = " not in terminal.seen
    assert sorted(p.name for p in (tmp_path / "work").iterdir()) == ["one", "three", "two"]


@pytest.mark.parametrize("trusted", [True, False])
def test_a_yes_for_good_is_kept_in_the_projects_local_settings(
    tmp_path: Path, trusted: bool
) -> None:
    if trusted:
        assert clew(tmp_path, "", "config", "trust").returncode == 0
    with (
        serving(touches("one", "two"), strict=True) as server,
        Terminal(tmp_path, server.url) as terminal,
    ):
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect("a = Yes, and save that rule for this project")
        terminal.expect("instead: ")
        terminal.type("a\n")
        terminal.expect("Done.")
    kept = tmp_path / "work" / ".claude" / "settings.local.json"
    assert "Bash(touch *)" in kept.read_text("utf-8")
    assert kept.stat().st_mode & 0o777 == 0o600
    with serving(touches("three"), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go")
    assert (tmp_path / "work" / "three").exists()
    assert "trust" not in done.stderr


def test_a_yes_to_edits_lets_the_next_one_through_and_nothing_protected(tmp_path: Path) -> None:
    writes = [
        {"content": [{"tool": "Write", "input": {"file_path": name, "content": "x"}}]}
        for name in ("a.txt", "b.txt", ".bashrc")
    ]
    plan = {"scenario": 1, "answers": [*writes, {"text": "Done.", "times": "always"}]}
    with serving(plan, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect("s = Yes")
        terminal.expect("instead: ")
        terminal.type("s\n")
        terminal.expect(".bashrc")
        terminal.expect("y = Yes")
        terminal.expect("instead: ")
        assert "s = Yes" not in terminal.seen
        terminal.type("not that one\n")
        terminal.expect("Done.")
    assert sorted(p.name for p in (tmp_path / "work").iterdir()) == ["a.txt", "b.txt"]


def test_what_was_shown_in_part_is_seen_whole(tmp_path: Path) -> None:
    call = {"content": [{"tool": "Bash", "input": {"command": "seq 1000 1500"}}]}
    plan = {"scenario": 1, "answers": [call, {"text": "Counted."}]}
    with (
        serving(plan, strict=True) as server,
        Terminal(tmp_path, server.url, "--allowedTools", "Bash") as terminal,
    ):
        terminal.expect("> ")
        terminal.type("/see\n")
        terminal.expect("No collapsed output")
        terminal.expect("> ")
        terminal.type("count\n")
        terminal.expect("… 492 more lines (/see 1 to expand)")
        terminal.expect("Counted.")
        terminal.expect("> ")
        terminal.type("/see\n")
        terminal.expect("1 Bash: seq 1000 1500")
        terminal.expect("> ")
        terminal.type("/see 2\n")
        terminal.expect("! Collapsed output 2 not found")
        terminal.expect("> ")
        terminal.type("/see 1\n")
        terminal.expect("\r\n".join(str(number) for number in range(1000, 1501)))


@pytest.mark.parametrize("way", ["option", "setting"])
def test_verbose_shows_long_output_in_full(tmp_path: Path, way: str) -> None:
    call = {"content": [{"tool": "Bash", "input": {"command": "seq 1000 1500"}}]}
    plan = {"scenario": 1, "answers": [call, {"text": "Counted."}]}
    args = ["--verbose"] if way == "option" else ["--settings", '{"verbose": true}']
    with (
        serving(plan, strict=True) as server,
        Terminal(tmp_path, server.url, "--allowedTools=Bash", *args) as terminal,
    ):
        terminal.expect("> ")
        terminal.type("count\n")
        terminal.expect("\r\n".join(f"  {number}" for number in range(1000, 1501)))
        terminal.expect("Counted.")


@pytest.mark.parametrize("columns", [80, 60])
def test_what_a_command_says_is_broken_between_words(tmp_path: Path, columns: int) -> None:
    with serving(HELLO) as server:
        whole = clew(tmp_path, server.url, "-p", "/config").stdout
        with Terminal(tmp_path, server.url, columns=columns) as terminal:
            terminal.expect("> ")
            terminal.type("/config\n/exit\n")
            assert terminal.end() == 0
            lines = terminal.seen.split("\r\n")
    assert any(len(line) > columns for line in whole.splitlines())
    assert max(map(len, lines)) <= columns
    said = " ".join(lines).split()
    at = said.index("Settings")
    # Every word, whole and in its order.
    rest = iter(said[at:])
    assert all(word in rest for word in whole.split())


def test_where_no_key_is_pressed_none_is_named(tmp_path: Path) -> None:
    with serving(HELLO) as server:
        done = clew(tmp_path, server.url, "--linear", input="hi\n")
        assert "Hello!" in done.stdout
        # What comes behind it stands on a line of its own.
        assert "You> \n" in done.stdout
        assert "Escape" not in done.stdout
        with Terminal(tmp_path, server.url) as terminal:
            terminal.expect("Ctrl-D to exit")
