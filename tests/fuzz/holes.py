"""Holes that clew once had, or could have: each is opened on purpose to see that the fuzzer finds it.

Owns the table. A hole changes one small thing in the reading or in a table of this process. The
fuzzer must then find a line that is allowed only because of it (see tests/fuzz/test_holes.py).
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import structs

from clew.permissions import command_line, git, grammar, programs, reading, readonly, uses, wrappers
from clew.permissions.grammar import Unread
from clew.permissions.shell import Script

Open = Callable[[], object]
# Holes that harm only where this program is installed.
NEEDS = {"rg --pre": "rg", "fd -x": "fdfind"}
NEVER = re.compile(r"(?!)")


# What closes the open hole again, the last change first.
UNDO: list[Open] = []


def patch(module: Any, name: str, value: Any) -> None:
    UNDO.append(partial(setattr, module, name, getattr(module, name)))
    setattr(module, name, value)


def enter(table: dict[str, Any], name: str, value: Any) -> None:
    """Change a row of a table; a value of None takes it away."""
    old = table.get(name)
    UNDO.append(lambda: table.pop(name, None) if old is None else table.update({name: old}))
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value


def close() -> None:
    while UNDO:
        UNDO.pop()()
    forget_rows()


def forget_rows() -> None:
    programs.row_of.cache_clear()
    git.row_of.cache_clear()


def misread(pattern: str, instead: str = "", *, flags: int = re.S) -> Open:
    """A reader that takes some text for other text, with no second reader beside it."""
    taken = re.compile(pattern, flags)

    def opened() -> None:
        strict = grammar.read_line

        def read_line(text: str) -> Script | Unread:
            return strict(taken.sub(instead, text))

        patch(reading, "read_line", read_line)
        patch(command_line, "is_same_reading", lambda ours, theirs: True)

    return opened


def more_options(name: str, options: str, *, table: Any = programs) -> Open:
    """Options that a row must not have, and that no rule for the program is held against."""

    def opened() -> None:
        enter(table.ROWS, name, table.ROWS[name] + options)
        forget_rows()
        if table is programs:
            enter(programs.HARMFUL, name, None)
        else:
            harmful = tuple(h for h in git.HARMFUL if h not in options.replace(":", ""))
            patch(git, "HARMFUL", harmful)

    return opened


def new_row(name: str, row: str) -> Open:
    def opened() -> None:
        enter(programs.ROWS, name, row)
        forget_rows()

    return opened


def other_operands(name: str, kind: str) -> Open:
    def opened() -> None:
        old = programs.ROWS[name].split(" ", 1)[1]
        new_row(name, f"{kind} {old}")()

    return opened


def replaced(module: Any, name: str, value: Any) -> Open:
    return lambda: patch(module, name, value)


def input_is_trusted() -> None:
    """`xargs` with words that come from input."""
    only_reads = readonly.only_reads

    def forgetful(command: Any, *rest: Any) -> bool:
        return only_reads(structs.replace(command, more_arguments=False), *rest)

    patch(command_line, "only_reads", forgetful)
    patch(command_line, "exceeds_reading", lambda *rest: False)


def any_variable() -> None:
    patch(readonly, "HARMLESS_VARIABLES", re.compile(r"\w+"))
    patch(readonly, "changes_meaning", lambda name: False)
    patch(command_line, "changes_meaning", lambda name: False)


def what_git_keeps() -> None:
    patch(command_line, "shows_held", lambda *rest: None)


def patterns_are_text() -> None:
    strict = grammar.read_line

    def read_line(text: str) -> Script | Unread:
        line = strict(text)
        if isinstance(line, Unread):
            return line
        commands = tuple(
            structs.replace(c, words=tuple(structs.replace(w, glob=False) for w in c.words))
            for c in line.commands
        )
        return structs.replace(line, commands=commands)

    patch(reading, "read_line", read_line)


def find_also(words: dict[str, int]) -> Open:
    """Words of `find` that it must not have, with what they touch and start forgotten."""

    def opened() -> None:
        for name, takes in words.items():
            enter(readonly.FIND_WORDS, name, takes)
        patch(uses, "find_uses", lambda command: [])
        patch(wrappers, "found_by", lambda command: wrappers.NOTHING)

    return opened


def both(*holes: Open) -> Open:
    """Two walls stand before some harm: both are opened."""

    def opened() -> None:
        for hole in holes:
            hole()

    return opened


def git_remote_verbose() -> None:
    words_read = git.words_read

    def forgetful(name: str, arguments: Any, rest: Any) -> bool:
        return words_read(name, arguments, rest) or (name == "remote" and "-v" in arguments.names)

    patch(git, "words_read", forgetful)


# sed as it was read once: brackets were characters like any others.
WITHOUT_BRACKETS = re.compile(readonly.SED_COMMAND.pattern.replace(r"[^\[\\\n]", r"[^\\\n]"))

HOLES: dict[str, Open] = {
    # readings
    "a line that begins with a continuation": misread(r"\n[ \t]*\\\n[^\n]*"),
    "ANSI-C quotes": misread(r"\$'(?:[^'\\]|\\')*\\\\'.*?#'", "x"),
    "a lone dollar in double quotes": misread(r"\"[^\"$]*\$[ %,./][^\"]*\"", "x"),
    "a continuation between dollar and parenthesis": misread(r"\$\\\n\([^()]*\)", "x"),
    "quotes in a parameter expansion": misread(r"\"\$\{\w+:?[-=+]'[^'\n]*'\}\"", "x"),
    "what follows the delimiter of a here-document": misread(r"(<<-?\s*'?\w+'?)[;|&][^\n]*", r"\1"),
    "a here-document that expands": misread(r"<<(\w+)\n.*?\n\1(?=\n|\Z)"),
    "a comment after a pipeline": misread(r"(\|[^|\n]*\|[^|\n#]*)#[^\n]*\n[^\n&]*&& ?", r"\1&& "),
    "a process substitution": misread(r"[<>]\([^()]*\)", "x"),
    "a descriptor with a name": misread(r"\{[A-Z]+\}<\S+"),
    "an assignment with an index": misread(r"(?<!\S)\w+\[[^\]\n]*\]\+?=\S*", "a=1"),
    "a command substitution": misread(r"\$\([^()]*\)|`[^`]*`", "x"),
    "a comment after an unusual blank": misread("[\u00a0\u2028\r\x0b\x0c\x85]#[^\n]*"),
    "a background job": misread(r"(?<![&>|])&(?![&>])[^\n]*"),
    "an array": misread(r"\w+\+?=\([^()]*(?:\([^()]*\))?[^()]*\)", "a=1"),
    "the value of a variable": replaced(programs, "may_be_option", lambda word: False),
    # tables
    "declare": new_row("declare", "text free"),
    "xargs": input_is_trusted,
    "the value of sed -l": new_row("sed", programs.ROWS["sed"].replace("-l: ", "-l ")),
    "the word version": replaced(
        readonly, "VERSION_OPTIONS", frozenset({"--version", "-V", "version"})
    ),
    "programs that load the project for --version": replaced(
        readonly, "TELLS_VERSION", frozenset({"pytest", "yarn", "cargo", "rustc", "npx"})
    ),
    "git remote -v": git_remote_verbose,
    "git branch --sort": replaced(
        git, "NAMES_ARE_PATTERNS", git.NAMES_ARE_PATTERNS | {"--sort", "--format"}
    ),
    "git --output": more_options("log", " --output:", table=git),
    "git grep -O": more_options("grep", " -O? --open-files-in-pager?", table=git),
    "sort -o": more_options("sort", " -o: --output:"),
    "sort --compress-program": more_options("sort", " -S: --compress-program:"),
    "rg --pre": more_options("rg", " --pre:"),
    "fd -x": both(
        more_options("fd", " -x: -X: --exec:"),
        more_options("fdfind", " -x: -X: --exec:"),
        replaced(wrappers, "after_flag", lambda command, flags: wrappers.NOTHING),
    ),
    "the second file of uniq": other_operands("uniq", "files"),
    "find -delete and -fprint": find_also({"-delete": 0, "-fprint": 1, "-fls": 1}),
    "find -exec": both(find_also({}), replaced(readonly, "find_reads", lambda words: True)),
    "a delimiter in brackets": replaced(readonly, "SED_COMMAND", WITHOUT_BRACKETS),
    "programs of sed": replaced(readonly, "sed_script", lambda text: True),
    "programs of awk": replaced(readonly, "AWK_ACTS", NEVER),
    "PATH and its like": any_variable,
    "git's history": what_git_keeps,
    # denied files
    "grep -d": more_options("grep", " -d: --directories:"),
    "grep -f": both(
        more_options("grep", " -f: --file:"),
        replaced(uses, "option_uses", lambda command, name, flags: []),
    ),
    "git show :.env": replaced(uses, "git_uses", lambda command, operands: []),
    "ARGV of awk": both(
        replaced(
            readonly, "AWK_ACTS", re.compile(readonly.AWK_ACTS.pattern.replace("ARGV|ARGC|", ""))
        ),
        replaced(command_line, "reaches_otherwise", lambda bench, command: []),
    ),
    "patterns of names": patterns_are_text,
    "redirections from files": replaced(command_line, "find_redirect_uses", lambda redirect: []),
    "folders that are read whole": replaced(uses, "ALWAYS_BELOW", frozenset()),
}
