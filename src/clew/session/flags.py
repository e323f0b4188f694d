"""Parse a session's command line: the flags that the fields of `clew.agent.options` define.

This module only parses: no flag takes effect here. It does not use `argparse`, whose import and
parser would take a twentieth of a short run's time.
"""

from collections import deque
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from clew.agent import option_values as values
from clew.agent.options import LEAST_THINKING, Flag, Options, notes
from clew.core.messages.errors import CommandLineError
from clew.core.nearest import find_nearest, suggest_nearest
from clew.permissions.modes import names_tool
from clew.providers.base import Adaptive, Off, Thinking, ThinkingBudget

# Options whose unknown values are ignored if a host gives them, as hosts expect.
IGNORED_FOR_HOSTS = ("--effort",)
# The tools that --restricted removes unless --tools names them: they run commands, or fetch any URL.
RESTRICTED_TOOLS = ("Bash", "PowerShell", "Monitor", "WebFetch")
# An error message does not repeat longer arguments.
MOST_SHOWN = 60


class FlagRow(NamedTuple):
    """A flag as the parser needs it. `argument` is empty if the flag is a switch."""

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
    """Return every flag, in the order in which `Options` defines them."""
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
    """Parse `argv`; raise `CommandLineError` if it is invalid.

    The error for an unknown flag suggests the nearest known spelling.
    """
    words, flags, ignored = read(argv)
    options: Given = dict.fromkeys(row.name for row in flag_rows()) | flags
    check(options)
    # If several flags set the same field, the later one in the table wins.
    fields = {row.field: flags[row.name] for row in flag_rows() if row.name in flags}
    return Options(
        **fields | combine_flags(options, fields),
        prompt=" ".join(filter(None, words)),
        ignored=ignored,
    )


def read(argv: list[str]) -> tuple[list[str], Given, tuple[str, ...]]:
    """Return the words of the prompt, the values of the flags, and messages about ignored values.

    The values are keyed by the long spelling of their flags.
    """
    left, words = deque(argv), list[str]()
    flags: Given = {}
    ignored: list[str] = []
    is_host = "--input-format" in argv
    while left:
        word = left.popleft()
        if word == "--":
            words += left
            break
        if not is_flag(word):
            words.append(word)
            continue
        row, text = split(word, left)
        try:
            values_read = (
                [row.flag.value]
                if text is None
                else list(map(row_reader(row), read_texts(row, text, left)))
            )
        except CommandLineError as error:
            if not is_host or row.name not in IGNORED_FOR_HOSTS:
                raise
            ignored.append(f"{error}; using the default")
            continue
        for value in values_read:
            before = flags.get(row.name) if row.flag.is_repeatable else None
            flags[row.name] = value if before is None else before + value
    return words, flags, tuple(ignored)


def is_flag(word: str) -> bool:
    """Return whether a word is a flag.

    A single dash, a negative number and unknown text with spaces are values.
    """
    if len(word) < 2 or not word.startswith("-"):
        return False
    if word.partition("=")[0] in by_spelling() or word == "--":
        return True
    return not word[1:].replace(".", "", 1).isdigit() and " " not in word


def split(word: str, left: deque[str]) -> tuple[FlagRow, str | None]:
    """Return the flag that a word names, and its argument, if any."""
    name, equals, text = word.partition("=")
    row = by_spelling().get(name)
    if row is None and not is_long(word) and (row := by_spelling().get(word[:2])):
        if row.argument:  # This is `-nTITLE`.
            return row, word[2:]
        left.appendleft(f"-{word[2:]}")  # This is `-pc`.
        return row, None
    if row is None:
        raise CommandLineError(describe_unknown(name))
    if equals and not row.argument:
        raise CommandLineError(f"{name} accepts no argument (run clew --help for the options)")
    if equals:
        return row, text
    is_next = bool(left) and not is_flag(left[0]) and not row.argument.startswith("[=")
    if row.argument and is_next:
        return row, left.popleft()
    if row.needs_argument:
        raise CommandLineError(f"{name} requires {row.argument} (run clew --help for the options)")
    return row, None


def read_texts(row: FlagRow, text: str, left: deque[str]) -> Iterator[str]:
    """Yield the arguments of a flag.

    A flag that takes rules takes all rules that follow it; other words belong to the prompt.
    """
    yield text
    while row.flag.read is values.rules and left and names_tool(left[0]):
        yield left.popleft()


def row_reader(row: FlagRow) -> Any:
    def value_of(text: str) -> Any:
        choices = row.flag.choices
        try:
            if choices and text not in choices:
                near = suggest_nearest(text, choices)
                raise ValueError(f"expected one of {', '.join(choices)}{near}")
            return row.flag.read(text)
        except ValueError as error:
            excerpt = f" {text}" if len(text) <= MOST_SHOWN and "\n" not in text else ""
            raise CommandLineError(f"{row.name}{excerpt}: {error}") from None

    return value_of


def check(flags: Given) -> None:
    """Raise `CommandLineError` for flags that can't be combined."""
    streams = flags["--output-format"] == "stream-json"
    names_session = flags["--resume"] is not None or flags["--from-pr"] is not None
    is_resumed = flags["--continue"] or names_session
    needs = (
        ("--fork-session", is_resumed, "a session to copy: --continue or --resume"),
        (
            "--resume-session-at",
            flags["--continue"] or flags["--resume"] or flags["--from-pr"],
            "a session: --continue or --resume",
        ),
        ("--resume-drops-turn", flags["--resume-session-at"], "--resume-session-at"),
        ("--session-mirror", streams, "--output-format stream-json"),
    )
    for name, is_there, what in needs:
        if flags[name] and not is_there:
            raise CommandLineError(f"{name} requires {what}")
    if flags["--permission-prompts"] == "none" and not (
        flags["--print"] or flags["--output-format"] not in (None, "text")
    ):
        raise CommandLineError("--permission-prompts none requires --print")
    if flags["--resume"] is not None and flags["--from-pr"] is not None:
        raise CommandLineError("--resume and --from-pr can't be combined; use one of them")
    if flags["--continue"] and names_session:
        name = "--resume" if flags["--from-pr"] is None else "--from-pr"
        raise CommandLineError(f"--continue and {name} can't be combined; use one of them")
    if flags["--session-mirror"] and flags["--no-session-persistence"] is not None:
        raise CommandLineError("--session-mirror and --no-session-persistence can't be combined")
    for name in ("--print", "--output-format", "--no-session-persistence"):
        if flags["--remote"] is not None and flags[name] is not None:
            raise CommandLineError(f"--remote and {name} can't be combined")
    for name in ("--system-prompt", "--append-system-prompt"):
        if flags[name] is not None and flags[f"{name}-file"] is not None:
            raise CommandLineError(f"{name} and {name}-file can't be combined; use one of them")
    modes = (flags["--permission-mode"], flags["--dangerously-skip-permissions"])
    if flags["--restricted"] and "bypassPermissions" in modes:
        raise CommandLineError("--restricted and bypassPermissions mode can't be combined")
    if streams and not flags["--verbose"]:
        raise CommandLineError("--output-format stream-json requires --verbose")
    if flags["--input-format"] == "stream-json" and not streams:
        raise CommandLineError("--input-format stream-json requires --output-format stream-json")


def combine_flags(flags: Given, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the fields that depend on several flags."""
    options: dict[str, Any] = {"thinking": thinking(flags)}
    # The JSON formats are for programs, so they imply --print.
    if flags["--init-only"] or flags["--output-format"] in ("json", "stream-json"):
        options["is_print"] = True
    if flags["--init-only"]:
        options["setup"] = fields.get("setup", "init")
    if fields.get("mode") == "bypassPermissions":
        options["may_bypass"] = True
    nobody = flags["--permission-prompts"] == "none"
    options["asks"] = None if nobody else flags["--permission-prompt-tool"]
    if flags["--bare"] or flags["--safe-mode"]:
        options |= {"sources": (), "strict_mcp_config": True}
    if flags["--restricted"]:
        left_out = [name for name in RESTRICTED_TOOLS if name not in (flags["--tools"] or ())]
        options |= {"sources": (), "deny": (*fields.get("deny", ()), *left_out)}
    if flags["--debug"] is not None and "debug" not in fields:
        options["debug"] = ""
    with_and_without = (flags["--plugin-dir"], flags["--plugin-dir-no-mcp"])
    options["plugin_folders"] = tuple(chain.from_iterable(filter(None, with_and_without)))
    return options


def thinking(flags: Given) -> Thinking | None:
    """Return the thinking setting that three overlapping flags specify together, or None."""
    kind, tokens = flags["--thinking"], flags["--max-thinking-tokens"]
    display = flags["--thinking-display"]
    if kind == "disabled" or (tokens == 0 and kind is None):
        return Off()
    if tokens and kind != "adaptive":
        return ThinkingBudget(tokens=max(tokens, LEAST_THINKING), display=display)
    if kind is not None or display is not None:
        return Adaptive(display=display)
    return None


def describe_unknown(name: str) -> str:
    near = find_nearest(name, [*by_spelling(), "--help", "--version"], cutoff=0.75)
    hint = f" (did you mean {near}?)" if near else ""
    return f"unknown option {name}{hint}; run clew --help for the options"
