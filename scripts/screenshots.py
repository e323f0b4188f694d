"""Take pictures of the real screen for the README, light and dark: `make screenshots`.

clew runs in a terminal emulator with a scripted model. The content of the terminal is written as
SVG, cell by cell, without external fonts or other resources.
"""

import sys
import tempfile
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.fronts.headless.agents_model import by_prompt
from tests.fronts.terminal.screen import OnScreen

from clew.testing.server import serving

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
COLUMNS, ROWS = 96, 32
CELL_WIDTH, CELL_HEIGHT = 8.4, 18
GROUNDS = {"dark": ("#16181d", "#d4d7dd"), "light": ("#fdfdfb", "#24292f")}
# The terminal's 16 colors, by the emulator's names.
NAMES = {
    "black": "#3b4048", "red": "#c4515c", "green": "#5f9e5f", "brown": "#b8862f", "blue": "#4a7fc1",
    "magenta": "#a266b5", "cyan": "#3f9aa3", "white": "#c8ccd4",
}  # fmt: skip

PROJECT = {
    "purse.py": "def total(coins):\n    return sum(coins[1:])\n",
    "check.py": (
        "from purse import total\n\nfound = total([1, 2, 5])\n"
        "print(f'total([1, 2, 5]) is {found}')\nraise SystemExit(found != 8)\n"
    ),
}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "input": arguments}


def says(*content: Any, **more: Any) -> dict[str, Any]:
    return {"content": list(content), **more}


DONE = {"text": "Done.", "times": "always"}
CHECK = call("Bash", command="python3 check.py", description="Run the check")
FIX = call(
    "Edit",
    file_path="purse.py",
    old_string="    return sum(coins[1:])",
    new_string="    # Include the first coin.\n    return sum(coins)",
)
FIXED = (
    "Fixed. The results before and after:\n\n"
    "| coins | before | after |\n|---|--:|--:|\n"
    "| `[1, 2, 5]` | 7 | **8** |\n| `[]` | 0 | 0 |\n\n"
    "A test to prevent a regression:\n\n"
    '```python\ndef test_total_counts_every_coin(self):\n    """The total of any purse."""\n'
    "    for coins in ([], [3], [1, 2, 5]):\n"
    "        self.assertEqual(total(coins), sum(coins))\n```\n"
)
MODULE = "".join(
    f"def coin_{worth}(number):\n    return {worth} * number\n\n\n" for worth in (1, 2, 5, 10, 20)
)
PLAN = (
    "# Count every coin\n\n1. **Fix** `total` in `purse.py`\n2. Add a test\n"
    "3. Run `python3 check.py`\n\n```python\nreturn sum(coins)\n```\n"
)
QUESTIONS = [
    {
        "question": "Which currency should the purse use?",
        "header": "Currency",
        "multiSelect": False,
        "options": [
            {"label": "Euro", "description": "Two decimals, with the sign behind"},
            {"label": "Yen", "description": "No decimals"},
        ],
    },
    {
        "question": "Which reports should it write?",
        "header": "Reports",
        "multiSelect": True,
        "options": [
            {"label": "Totals", "description": "One line for each purse"},
            {"label": "History", "description": "Every coin with its date"},
        ],
    },
]
TODOS = [
    {"content": "Fix the total", "activeForm": "Fixing the total", "status": "completed"},
    {"content": "Run the check", "activeForm": "Running the check", "status": "in_progress"},
    {"content": "Write a test", "activeForm": "Writing a test", "status": "pending"},
]
WAITS = "until [ -e gate ]; do sleep 0.1; done"


def agent(prompt: str, description: str) -> dict[str, Any]:
    return call("Agent", subagent_type="general-purpose", prompt=prompt, description=description)


# The commands that wait for a choice; Escape leaves them. The others print.
DIALOGS = {"theme", "model", "config"}

# Sessions with their pictures: the answers of the model, options, and steps. A step presses keys,
# waits for words, or takes a picture.
Step = tuple[str, Any]
SESSIONS: list[tuple[Any, tuple[str, ...], list[Step]]] = [
    (
        {
            "scenario": 1,
            "answers": [
                says(
                    "I'll read the file and run the check.",
                    call("Read", file_path="purse.py"),
                    CHECK,
                ),
                says(
                    "The **first coin** is missing: the slice starts at 1.",
                    FIX,
                    when={"tool_result": "Bash"},
                ),
                {"when": {"tool_result": "Edit"}, "text": FIXED},
            ],
        },
        ("--allowedTools", "Bash(python3 check.py)"),
        [
            ("see", "default mode"),
            ("picture", "welcome"),
            ("press", "The check fails. Find out why and fix it.\r"),
            ("see", "+2 -1"),
            ("picture", "asking"),
            ("press", "\r"),
            ("see", "assertEqual(total(coins)"),
            ("see", "Done in"),
            ("picture", "answer"),
            *(
                step
                for command, words in (
                    ("theme", "Choose a theme"),
                    ("model", "Select a model"),
                    ("context", "lists the messages"),
                    ("config", "Type to search"),
                    ("permissions", "changes the mode"),
                    ("cost", "clew cost shows"),
                    ("help", "@FILE"),
                )
                for step in (
                    ("press", f"/{command}\r"),
                    ("see", words),
                    ("picture", command),
                    *([("press", "\x1b"), ("rest", "")] if command in DIALOGS else []),
                )
            ),
            ("press", "\x0f"),
            ("see", "Show full output"),
            ("press", "2"),
            ("see", "Esc close"),
            ("picture", "viewer"),
        ],
    ),
    (
        {
            "scenario": 1,
            "answers": [
                says(
                    call("Read", file_path="purse.py"),
                    call("Read", file_path="check.py"),
                    call("Grep", pattern="total"),
                ),
                says(call("Write", file_path="coins.py", content=MODULE)),
                says(
                    call(
                        "Bash",
                        command="git status --short && python3 check.py | head -5 && rm -rf build",
                        description="Check and clean up",
                    )
                ),
                DONE,
            ],
        },
        ("--permission-mode", "acceptEdits"),
        [
            ("see", "accept edits"),
            ("press", "Split the coins into a module of their own.\r"),
            ("see", "1. Yes"),
            ("picture", "compound"),
            ("press", "n"),
            ("see", "✗ Bash"),
            ("rest", ""),
            ("picture", "denied"),
        ],
    ),
    (
        {"scenario": 1, "answers": [says(call("ExitPlanMode", plan=PLAN)), DONE]},
        ("--permission-mode", "plan", "Plan the fix."),
        [("see", "Start working"), ("picture", "plan")],
    ),
    (
        {"scenario": 1, "answers": [says(call("AskUserQuestion", questions=QUESTIONS)), DONE]},
        ("Make the purse print money.",),
        [("see", "Which currency"), ("picture", "questions")],
    ),
    (
        {
            "scenario": 1,
            "answers": [
                {
                    "status": 529,
                    "headers": {"retry-after": "60"},
                    "error": {"type": "overloaded_error", "message": "Overloaded"},
                    "times": "always",
                }
            ],
        },
        ("Fix the check.",),
        [("see", "Retrying"), ("picture", "retry")],
    ),
    (
        by_prompt(
            {
                "Review the purse.": [
                    says(call("TodoWrite", todos=TODOS)),
                    says(
                        agent("Look for rounding errors.", "Look for rounding errors"),
                        agent("Look for missing tests.", "Look for missing tests"),
                    ),
                    {"text": "Both found nothing."},
                ],
                "Look for rounding errors.": [says(call("Bash", command=WAITS)), {"text": "No."}],
                "Look for missing tests.": [says(call("Bash", command=WAITS)), {"text": "No."}],
            }
        ),
        ("--allowedTools", f"Bash({WAITS})", "Review the purse."),
        [("see", lambda text: text.count("until [") == 2), ("picture", "agents")],
    ),
    (
        {"scenario": 1, "answers": [DONE]},
        (),
        [
            ("see", "default mode"),
            ("press", "!git init -q && git status --short\r"),
            ("see", "?? "),
            ("rest", ""),
            ("press", "@pu"),
            ("see", "purse.py"),
            ("picture", "files"),
            ("press", "\x15/re"),
            ("see", "/resume"),
            ("picture", "commands"),
            ("press", "\x15"),
            ("rest", ""),
            ("press", "?"),
            ("see", "Everywhere"),
            ("picture", "keys"),
        ],
    ),
]


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for theme in GROUNDS:
        for name, picture in pictures(theme):
            (FOLDER / f"{name}-{theme}.svg").write_text(picture, "utf-8")
            print(FOLDER / f"{name}-{theme}.svg")
    return 0


def pictures(theme: str) -> Iterator[tuple[str, str]]:
    ground = "0;15" if theme == "light" else "15;0"
    env = {"NO_COLOR": "", "COLORTERM": "truecolor", "COLORFGBG": ground}
    for scenario, options, steps in SESSIONS:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            (home / "work").mkdir()
            for name, text in PROJECT.items():
                (home / "work" / name).write_text(text, "utf-8")
            with (
                serving(scenario, strict=True) as server,
                OnScreen(home, server.url, *options, env=env, columns=COLUMNS, rows=ROWS) as screen,
            ):
                for kind, words in steps:
                    if kind == "picture":
                        if "to interrupt)" not in screen.picture:
                            screen.settle()
                        yield words, svg(screen.glass, theme)
                    elif kind == "press":
                        screen.type(words)
                    elif kind == "rest":
                        screen.expect_rest()
                    else:
                        screen.expect(words)


def svg(glass: Any, theme: str) -> str:
    """Return the content of a terminal as SVG, without empty rows at the end."""
    ground, ink = GROUNDS[theme]
    rows = len("\n".join(glass.rows).rstrip("\n").split("\n"))
    width, height = COLUMNS * CELL_WIDTH + 32, rows * CELL_HEIGHT + 32
    cells = "\n".join(
        run for y in range(rows) for run in _runs(glass.buffer[y], y, ground=ground, ink=ink)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{ground}"/>\n'
        f'<g transform="translate(16 16)">\n{cells}\n</g>\n</svg>\n'
    )


def _runs(line: Any, y: int, *, ground: str, ink: str) -> Iterator[str]:
    """Yield adjacent cells with the same style as one text."""
    x = 0
    for look, cells in groupby((line[x] for x in range(COLUMNS)), key=_look):
        texts = [cell.data for cell in cells]
        wide, text, at = len(texts) * CELL_WIDTH, "".join(texts), x * CELL_WIDTH
        x += len(texts)
        fore, back, bold, italic, underlined, reverse = look
        fore, back = _color(fore, ink), _color(back, ground)
        if reverse:
            fore, back = back, fore
        if back != ground:
            yield (
                f'<rect x="{at:g}" y="{y * CELL_HEIGHT}" width="{wide:g}" '
                f'height="{CELL_HEIGHT}" fill="{back}"/>'
            )
        if text.strip():
            more = (' font-weight="bold"' if bold else "") + (
                ' font-style="italic"' if italic else ""
            )
            more += ' text-decoration="underline"' if underlined else ""
            yield (
                f'<text x="{at:g}" y="{y * CELL_HEIGHT + 13.5:g}" textLength="{wide:g}" '
                f'xml:space="preserve" fill="{fore}"{more}>{escape(text)}</text>'
            )


def _look(cell: Any) -> tuple[str, str, bool, bool, bool, bool]:
    return cell.fg, cell.bg, cell.bold, cell.italics, cell.underscore, cell.reverse


def _color(name: str, default: str) -> str:
    return default if name == "default" else NAMES.get(name, f"#{name}")


if __name__ == "__main__":
    sys.exit(main())
