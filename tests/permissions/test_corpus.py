"""Adversarial command lines in a table: none is allowed where only reading is allowed."""

from pathlib import Path

import pytest

from tests.permissions.configurations import CONFIGURATIONS
from tests.permissions.world import World
from tests.requirements import requirement

FOLDER = Path(__file__).parent / "corpus"

READ_ONLY = {
    "allow": [
        "Read",
        "Glob",
        "Grep",
        *(
            f"Bash({command}:*)"
            for command in (
                "ls",
                "cat",
                "head",
                "grep",
                "rg",
                "find",
                "wc",
                "sort",
                "echo",
                "git log",
                "git diff",
                "git show",
                "git status",
            )
        ),
    ],
    "deny": ["Read(.env)", "Read(secrets/**)", "Read(~/.ssh/**)", "Read(//etc/shadow)"],
}


def lines(name: str) -> list[str]:
    text = (FOLDER / name).read_text("utf-8")
    kept = [line for line in text.split("\n") if line and not is_heading(line)]
    return [line.replace("⏎", "\n") for line in kept]


def is_heading(line: str) -> bool:
    """A comment that goes on behind a line break is a command line."""
    return line.startswith("# ") and "⏎" not in line


NEVER = lines("never_allowed.txt")

# What each file of the corpus may be judged under: a denied file needs its rule, and mode
# acceptEdits is there to change files.
CLASSES = {
    "readings.txt": list(CONFIGURATIONS),
    "tables.txt": list(CONFIGURATIONS),
    "tables_writing.txt": [name for name in CONFIGURATIONS if "acceptEdits" not in name],
    "denied.txt": [name for name in CONFIGURATIONS if "deny" in name],
    "places.txt": list(CONFIGURATIONS),
}


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(set(NEVER)) == len(NEVER) >= 300


@requirement("R146")
@pytest.mark.parametrize("command", NEVER)
def test_nothing_of_the_corpus_is_allowed_under_read_only_rules(world: World, command: str) -> None:
    assert world.bash(command, world.rules(**READ_ONLY)) in ("ask", "deny")


@pytest.mark.parametrize("command", lines("allowed.txt"))
def test_ordinary_looking_is_allowed_under_the_same_rules(world: World, command: str) -> None:
    assert world.bash(command, world.rules(**READ_ONLY)) == "allow"


@pytest.mark.no_cover
@pytest.mark.parametrize("command", NEVER)
def test_nothing_of_the_corpus_changes_anything_in_plan_mode(world: World, command: str) -> None:
    assert world.bash(command, world.rules(**READ_ONLY), "plan") in ("ask", "deny")
    assert world.bash(command, world.rules(**READ_ONLY), "dontAsk") == "deny"


def test_the_classes_together_are_as_large_as_promised() -> None:
    together = [line for name in CLASSES for line in lines(name)]
    assert len(set(together)) == len(together) >= 1500


@requirement("R146")
@pytest.mark.parametrize(
    ("name", "configuration"),
    [(name, configuration) for name, held in CLASSES.items() for configuration in held],
)
def test_nothing_of_a_class_is_allowed_in_any_configuration(
    world: World, name: str, configuration: str
) -> None:
    lists, mode = CONFIGURATIONS[configuration]
    rules = world.rules(**lists)
    assert [line for line in lines(name) if world.bash(line, rules, mode) == "allow"] == []


ODD_SIGNS = [
    "\u00a0",
    "\u2028",
    "\u2029",
    "\u200b",
    "\u202e",
    "\ufeff",
    "\x00",
    "\x1b",
    "\r",
    "\x85",
]


@pytest.mark.parametrize("sign", ODD_SIGNS, ids=[f"U+{ord(s):04X}" for s in ODD_SIGNS])
@pytest.mark.parametrize("template", ["ls{}rm x", "ls ;{}rm x", "echo a{}b", "ls{}-la"])
def test_a_sign_that_readers_disagree_on_asks(world: World, template: str, sign: str) -> None:
    assert world.bash(template.format(sign), world.rules(allow=["Bash(ls:*)"])) == "ask"
