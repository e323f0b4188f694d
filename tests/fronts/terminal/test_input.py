"""Commands, shell lines and notes, typed in a real terminal."""

from pathlib import Path

from clew.testing.server import serving
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement

PLAN = {"scenario": 1, "answers": [{"text": "Seen.", "times": "always"}]}


@requirement("R211")
def test_a_person_types_commands_shell_lines_and_notes(tmp_path: Path) -> None:
    with serving(PLAN, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("!touch made; echo made it\n")
        terminal.expect("! touch made")
        terminal.expect("made it")
        terminal.expect("Seen.")
        terminal.expect("> ")
        terminal.type("# Use tabs.\n")
        terminal.expect("added to")
        terminal.type("what is noted\n")
        terminal.expect("Seen.")
        terminal.expect("> ")
        terminal.type("/permissions plan\n")
        terminal.expect("plan")
        terminal.type("/model opus\n")
        terminal.expect("Model set to claude-opus-5-5")
        terminal.type("/model\n")
        terminal.expect("haiku")
        terminal.type("/hlep\n")
        terminal.expect("Did you mean /help?")
        terminal.type("/quit\n")
        terminal.expect("clew --resume")
        assert terminal.end() == 0
        sent = [str(request.body["messages"]) for request in server.requests]
    assert (tmp_path / "work" / "made").exists()
    assert (tmp_path / "work" / "CLAUDE.md").read_text("utf-8") == "- Use tabs.\n"
    assert "<bash-stdout>made it" in sent[0]
    assert "Follow it from now on" in sent[1]
    assert "Use tabs." in sent[1]


def test_a_note_begins_a_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    memory = tmp_path / "work" / "CLAUDE.md"
    memory.write_bytes(b"# Rules\n- one")
    with serving(PLAN, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("#two\n")
        terminal.expect("added to")
        terminal.type("/exit\n")
        assert terminal.end() == 0
    assert memory.read_bytes() == b"# Rules\n- one\n- two\n"


def test_a_person_begins_anew_and_goes_back(tmp_path: Path) -> None:
    with serving(PLAN, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("first words\n")
        terminal.expect("Seen.")
        terminal.expect("> ")
        terminal.type("/clear\n")
        terminal.expect("clew --resume ")
        terminal.expect("> ")
        terminal.type("second words\n")
        terminal.expect("Seen.")
        terminal.expect("> ")
        terminal.type("/resume\n")
        terminal.expect("first words")
        terminal.type("/resume first words\n")
        terminal.expect("You> first words")
        terminal.expect("Seen.")
        terminal.expect("> ")
        terminal.type("third words\n")
        terminal.expect("words\r\n")
        terminal.expect("Seen.")
        terminal.expect("> ")
        terminal.type("/resume nothing of this name\n")
        terminal.expect("! /resume")
        terminal.type("\x04")
        assert terminal.end() == 0
        sent = [str(request.body["messages"]) for request in server.requests]
    assert "first words" not in sent[1]
    assert "first words" in sent[2]
    assert "second words" not in sent[2]


def test_enter_never_replaces_an_unknown_command_and_leaves_it_to_edit(tmp_path: Path) -> None:
    with serving(PLAN, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("/usge")
        screen.expect("  /usage")
        screen.type("\r")
        screen.expect("Unknown command /usge. Did you mean /usage?")
        screen.expect("> /usge\n─")
        # A second Enter does not run the guess either, and neither does one with arguments.
        screen.type("\r")
        screen.expect(lambda text: text.count("Unknown command /usge") == 2)
        screen.expect("> /usge\n─")
        screen.type(" now\r")
        screen.expect("> /usge now\n─")
        assert "Tool time" not in screen.text
        screen.type("\x03")
        screen.expect_gone("> /usge now\n─")
        # Scattered letters in a name are not close to it.
        screen.type("/rdpg\r")
        screen.expect("Unknown command /rdpg. Type /help")
        screen.type("\x03")
        # A prefix of a name is enough, and so is another name of a command.
        screen.type("/cos\r")
        screen.expect("Cost  $0.0000")
        screen.type("/stats\r")
        screen.expect("Tool time")
        assert server.requests == []


def test_the_suggestions_go_with_the_text_that_ctrl_c_clears(tmp_path: Path) -> None:
    with serving(PLAN, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("/pl")
        screen.expect("/plugin")
        screen.type("\x03")
        screen.expect_gone("/plugin")
        # The second press is the first one on an empty prompt.
        screen.type("\x03")
        screen.expect("Ctrl-C again")
        screen.type("\x03")
        assert screen.end() == 130


def test_what_is_said_about_a_prompt_stands_below_it(tmp_path: Path) -> None:
    with serving(PLAN, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("read @nofile.txt \r")
        screen.expect("Seen.")
        prompt, _, below = screen.text.partition("> read @nofile.txt")
        assert "no such file" not in prompt
        assert "! @nofile.txt: file or folder not found" in below.partition("Seen.")[0]


def test_the_menu_says_what_a_command_does_and_its_arguments_once_it_is_named(
    tmp_path: Path,
) -> None:
    with serving(PLAN, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("/compa")
        screen.expect("/compact  Summarize the conversation to free up context")
        assert "--before" not in screen.picture
        screen.type("\t")
        screen.expect("/compact [INSTRUCTIONS | --before N")
        screen.type("\x03")
        screen.expect_gone("--before")


def test_a_question_mark_on_an_empty_prompt_shows_the_keys(tmp_path: Path) -> None:
    with serving(PLAN, strict=True) as server, OnScreen(tmp_path, server.url, rows=40) as screen:
        screen.expect(READY)
        screen.type("?")
        screen.expect("Esc close")
        looks_like(screen, "keys-page")
        screen.type("/suggestion\r")
        screen.expect("With suggestions")
        screen.type("\x1b")
        screen.expect_gone("Esc close")
        # In text it is a sign like any other.
        screen.type("why?")
        screen.expect("> why?\n")


def test_escape_twice_clears_the_prompt_and_then_opens_the_rewind(tmp_path: Path) -> None:
    with serving(PLAN, strict=True) as server, OnScreen(tmp_path, server.url, "first") as screen:
        screen.expect("Seen.")
        screen.expect_rest()
        screen.type("half a thought")
        screen.expect("> half a thought\n")
        screen.type("\x1b")
        screen.expect("Esc again to clear")
        screen.type("\x1b")
        screen.expect_gone("> half a thought\n")
        screen.type("\x1f")
        screen.expect("> half a thought\n")
        screen.type("\x1b")
        screen.expect("Esc again to clear")
        screen.type("\x1b")
        screen.expect_gone("> half a thought\n")
        screen.type("\x1b[A")
        screen.expect("> half a thought\n")
        screen.type("\x03")
        screen.expect_gone("> half a thought\n")
        screen.type("\x1b")
        screen.expect("Esc again to rewind")
        screen.type("\x1b")
        screen.expect("Rewind")
        assert len(server.requests) == 1
