"""What each command shows on a terminal, compared with a reviewed golden screen."""

import re
from pathlib import Path

from clew.testing.server import serving
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_linear import HELLO
from tests.requirements import requirement

# Those that need no more than a session in which one thing was said.
SHOWN = (
    "search", "add-dir", "agents", "cost", "diff", "effort", "hooks", "mcp",
    "memory", "output-style", "permissions", "plugin", "rename", "skills", "status",
    "statusline", "tasks", "todos", "usage", "vim",
)  # fmt: skip
ARGUMENTS = {"rename": "A title", "search": "hi"}
# So wide that no name of a folder, however long here, is wrapped.
COLUMNS, ROWS = 320, 100


def shown(text: str, line: str) -> str:
    """Return the rows between a finished command's line and the prompt."""
    _, _, said = text.partition(f"\n> {line}\n")
    return re.split(r"\n─{20,}", said)[0].strip("\n") + "\n"


def told(text: str, line: str) -> str:
    """Return what a command shows. An error is one line, however long its folder is."""
    rows = re.sub(r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:PORT", shown(text, line))
    return f"{' '.join(rows.split())}\n" if rows.startswith("!") else rows


@requirement("R217")
def test_every_command_shows_what_it_did(tmp_path: Path) -> None:
    with (
        serving(HELLO) as server,
        OnScreen(tmp_path, server.url, "hi", columns=COLUMNS, rows=ROWS) as screen,
    ):
        screen.expect("Hello!")
        screen.expect_rest()
        for name in SHOWN:
            line = f"/{name} {ARGUMENTS.get(name, '')}".rstrip()
            screen.type(f"{line}\r")
            screen.expect(lambda text, line=line: shown(text, line) != "\n")
            looks_like(screen, f"command-{name}", lambda seen, line=line: told(seen.text, line))
        # None of them asked the model.
        assert len(server.requests) == 1


@requirement("R217")
def test_help_names_every_command_and_context_what_fills_the_window(tmp_path: Path) -> None:
    with (
        serving(HELLO) as server,
        OnScreen(tmp_path, server.url, "hi", columns=160, rows=90) as screen,
    ):
        screen.expect("Hello!")
        screen.expect_rest()
        screen.type("/help\r")
        screen.expect("@FILE")
        for name in NAMES:
            assert f"\n    /{name}" in screen.text, name
        screen.type("/context\r")
        screen.expect("System prompt")


# Every command that clew says it has.
NAMES = (
    "help", "clear", "compact", "context", "cost", "usage", "model", "effort", "permissions", "hooks",
    "memory", "init", "resume", "rewind", "fork", "tree", "export", "rename", "search", "config",
    "status", "doctor", "mcp", "agents", "skills", "tasks", "todos", "vim", "keybindings",
    "output-style", "statusline", "add-dir", "diff", "review", "bug-report", "exit",
)  # fmt: skip
