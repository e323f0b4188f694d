"""The command line of a session: parses the flags that the rows of `clew.agent.options` name.

Must never act on one. Written out instead of `argparse`, whose import and parser cost a twentieth of
a short run.
"""

from collections import deque
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from clew.agent import option_values as values
from clew.agent.options import LEAST_THINKING, Flag, Options, notes
from clew.core.messages.errors import CommandLineError
from clew.permissions.modes import names_tool
from clew.providers.base import Adaptive, Off, Thinking, ThinkingBudget

# A longer text is not repeated in an error.
MOST_SHOWN = 60


class FlagRow(NamedTuple):
    """One flag as the parser needs it. `argument` is empty for a switch."""

    field: str
    flag: Flag
    spellings: tuple[str, ...]
    argument: str

    @property
    def name(self) -> str:
        """The long spelling, which is the flag's name in `Given`."""
        return next(filter(is_long, self.spellings))

    @property
    def needs_argument(self) -> bool:
        return bool(self.argument) and not self.argument.endswith("]")


Given = dict[str, Any]


def is_long(spelling: str) -> bool:
    return spelling.startswith("--")


@cache
def flag_rows() -> tuple[FlagRow, ...]:
    """Every flag of the table, in its order."""
    return tuple(
        row_of(field, flag) for field in Options.__struct_fields__ for flag in notes(field, Flag)
    )


def row_of(field: str, flag: Flag) -> FlagRow:
    head, bracket, rest = flag.spelling.partition("[")
    *others, last = head.split(", ")
    last, _, argument = last.partition(" ")
    return FlagRow(field, flag, (*others, last), argument or bracket + rest)


@cache
def by_spelling() -> dict[str, FlagRow]:
    return {spelling: row for row in flag_rows() for spelling in row.spellings}


def parse(argv: list[str]) -> Options:
    """Return the options in `argv`; raise `CommandLineError` with the nearest known spelling."""
    words, found = read(argv)
    given: Given = dict.fromkeys(row.name for row in flag_rows()) | found
    check(given)
    # Of flags that fill one field, the later in its row counts.
    fields = {row.field: found[row.name] for row in flag_rows() if row.name in found}
    return Options(**fields | combined(given, fields) | {"prompt": " ".join(filter(None, words))})


def read(argv: list[str]) -> tuple[list[str], Given]:
    """Return the words of the prompt, and the value of each flag that was given, by its long spelling."""
    left, words = deque(argv), list[str]()
    given: Given = {}
    while left:
        word = left.popleft()
        if word == "--":
            words += left
            break
        if not is_flag(word):
            words.append(word)
            continue
        row, text = split(word, left)
        for value in (
            [row.flag.value] if text is None else map(row_reader(row), texts(row, text, left))
        ):
            before = given.get(row.name) if row.flag.is_repeatable else None
            given[row.name] = value if before is None else before + value
    return words, given


def is_flag(word: str) -> bool:
    """Whether a word is meant as a flag, and so is no value: a dash alone, a negative number and
    unknown text with blanks are not."""
    if len(word) < 2 or not word.startswith("-"):
        return False
    if word.partition("=")[0] in by_spelling() or word == "--":
        return True
    return not word[1:].replace(".", "", 1).isdigit() and " " not in word


def split(word: str, left: deque[str]) -> tuple[FlagRow, str | None]:
    """Return the flag that a word names, and its argument, if there is one."""
    name, equals, text = word.partition("=")
    row = by_spelling().get(name)
    if row is None and not is_long(word) and (row := by_spelling().get(word[:2])):
        if row.argument:  # -nTITLE
            return row, word[2:]
        left.appendleft(f"-{word[2:]}")  # -pc
        return row, None
    if row is None:
        raise CommandLineError(unknown(name))
    if equals and not row.argument:
        raise CommandLineError(f"{name} takes no argument (clew --help lists the options)")
    if equals:
        return row, text
    is_next = bool(left) and not is_flag(left[0]) and not row.argument.startswith("[=")
    if row.argument and is_next:
        return row, left.popleft()
    if row.needs_argument:
        raise CommandLineError(f"{name} needs {row.argument} (clew --help lists the options)")
    return row, None


def texts(row: FlagRow, text: str, left: deque[str]) -> Iterator[str]:
    """Yield the argument of a flag. A flag of rules takes every rule after it; what is none is the prompt."""
    yield text
    while row.flag.read is values.rules and left and names_tool(left[0]):
        yield left.popleft()


def row_reader(row: FlagRow) -> Any:
    def value_of(text: str) -> Any:
        choices = row.flag.choices
        try:
            if choices and text not in choices:
                near = values.suggestion(text, choices)
                raise ValueError(f"expected one of {', '.join(choices)}{near}")
            return row.flag.read(text)
        except ValueError as error:
            shown = f" {text}" if len(text) <= MOST_SHOWN and "\n" not in text else ""
            raise CommandLineError(f"{row.name}{shown}: {error}") from None

    return value_of


def check(given: Given) -> None:
    """Raise `CommandLineError` for flags that do not fit together."""
    streams = given["--output-format"] == "stream-json"
    is_resumed = given["--continue"] or given["--resume"] is not None
    needs = (
        ("--fork-session", is_resumed, "a session to copy: --continue or --resume"),
        (
            "--resume-session-at",
            given["--continue"] or given["--resume"],
            "a session: --continue or --resume",
        ),
        ("--resume-drops-turn", given["--resume-session-at"], "--resume-session-at"),
        ("--session-mirror", streams, "--output-format stream-json"),
    )
    for name, is_there, what in needs:
        if given[name] and not is_there:
            raise CommandLineError(f"{name} needs {what}")
    if given["--permission-prompts"] == "none" and not (
        given["--print"] or given["--output-format"] not in (None, "text")
    ):
        raise CommandLineError("--permission-prompts none needs --print")
    if given["--continue"] and given["--resume"] is not None:
        raise CommandLineError("--continue and --resume name two different sessions; give one")
    if given["--session-mirror"] and given["--no-session-persistence"] is not None:
        raise CommandLineError("--session-mirror and --no-session-persistence exclude each other")
    for name in ("--system-prompt", "--append-system-prompt"):
        if given[name] is not None and given[f"{name}-file"] is not None:
            raise CommandLineError(f"{name} and {name}-file say the same thing twice; give one")
    if streams and not given["--verbose"]:
        raise CommandLineError("--output-format stream-json needs --verbose")
    if given["--input-format"] == "stream-json" and not streams:
        raise CommandLineError("--input-format stream-json needs --output-format stream-json")


def combined(given: Given, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that flags of several rows decide."""
    found: dict[str, Any] = {"thinking": thinking(given)}
    # A program asks for a stream of messages.
    if given["--init-only"] or given["--output-format"] == "stream-json":
        found["is_print"] = True
    if given["--init-only"]:
        found["setup"] = fields.get("setup", "init")
    if fields.get("mode") == "bypassPermissions":
        found["may_bypass"] = True
    nobody = given["--permission-prompts"] == "none"
    found["asks"] = None if nobody else given["--permission-prompt-tool"]
    if given["--bare"]:
        found |= {"sources": (), "strict_mcp_config": True}
    if given["--debug"] is not None and "debug" not in fields:
        found["debug"] = ""
    with_and_without = (given["--plugin-dir"], given["--plugin-dir-no-mcp"])
    found["plugin_folders"] = tuple(chain.from_iterable(filter(None, with_and_without)))
    return found


def thinking(given: Given) -> Thinking | None:
    """Return how the model thinks, out of three flags that overlap."""
    kind, tokens = given["--thinking"], given["--max-thinking-tokens"]
    display = given["--thinking-display"]
    if kind == "disabled" or (tokens == 0 and kind is None):
        return Off()
    if tokens and kind != "adaptive":
        return ThinkingBudget(tokens=max(tokens, LEAST_THINKING), display=display)
    if kind is not None or display is not None:
        return Adaptive(display=display)
    return None


def unknown(name: str) -> str:
    near = get_close_matches(name, [*by_spelling(), "--help", "--version"], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unknown option {name}{hint} (clew --help lists the options)"
