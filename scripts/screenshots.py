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
SCENARIO = {
    "scenario": 1,
    "answers": [
        {
            "content": [
                "I'll read the file and run the check.",
                {"tool": "Read", "input": {"file_path": "purse.py"}},
                {
                    "tool": "Bash",
                    "input": {"command": "python3 check.py", "description": "Run the check"},
                },
            ]
        },
        {
            "when": {"tool_result": "Bash"},
            "content": [
                "The **first coin** is missing: the slice starts at 1.",
                {
                    "tool": "Edit",
                    "input": {
                        "file_path": "purse.py",
                        "old_string": "    return sum(coins[1:])",
                        "new_string": "    # Include the first coin.\n    return sum(coins)",
                    },
                },
            ],
        },
        {
            "when": {"tool_result": "Edit"},
            "text": (
                "Fixed. The results before and after:\n\n"
                "| coins | before | after |\n|---|--:|--:|\n"
                "| `[1, 2, 5]` | 7 | **8** |\n| `[]` | 0 | 0 |\n\n"
                "A test to prevent a regression:\n\n"
                '```python\ndef test_total_counts_every_coin(self):\n    """The total of any purse."""\n'
                "    for coins in ([], [3], [1, 2, 5]):\n"
                "        self.assertEqual(total(coins), sum(coins))\n```\n"
            ),
        },
    ],
}


# The pages that commands show, each with words that are on it.
PAGES = {
    "theme": "Choose a theme",
    "model": "Select a model",
    "context": "lists the messages",
}


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
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "work").mkdir()
        for name, text in PROJECT.items():
            (home / "work" / name).write_text(text, "utf-8")
        with (
            serving(SCENARIO, strict=True) as server,
            OnScreen(
                home, server.url, "--allowedTools", "Bash(python3 check.py)",
                env=env, columns=COLUMNS, rows=ROWS,
            ) as screen,
        ):  # fmt: skip
            screen.expect("default mode")
            screen.settle()
            yield "welcome", svg(screen.glass, theme)
            screen.type("The check fails. Find out why and fix it.\r")
            screen.expect("+2 -1")
            screen.settle()
            yield "asking", svg(screen.glass, theme)
            screen.type("\r")
            screen.expect("assertEqual(total(coins)")
            screen.settle()
            yield "answer", svg(screen.glass, theme)
            for command, words in PAGES.items():
                screen.type(f"/{command}\r")
                screen.expect(words)
                screen.settle()
                yield command, svg(screen.glass, theme)
                screen.type("\x1b")
                screen.settle()


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
        fore, back = _colour(fore, ink), _colour(back, ground)
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


def _colour(name: str, default: str) -> str:
    return default if name == "default" else NAMES.get(name, f"#{name}")


if __name__ == "__main__":
    sys.exit(main())
