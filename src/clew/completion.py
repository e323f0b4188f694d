"""`clew completion bash|zsh|fish`: prints a completion script, and the words that it requests.

The script runs `clew completion --words ...` for each completion, so it knows the current session
titles and never becomes outdated. Commands and session options come from their tables; the options
of a command come from its help.
"""

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from clew.commands.sessions.commands import WORDS
from clew.session.flags import by_spelling

# The subcommands of `clew` by name.
Commands: TypeAlias = Mapping[str, Callable[[list[str]], int]]

SHELLS = ("bash", "zsh", "fish")
SESSIONS_SHOWN = 50
# Subcommands of `clew sessions` whose operands are not sessions.
WITHOUT_SESSIONS = {"list", "search", "import", "du", "stats", "relocate", "index", "watch"}
_OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)")
_CHOICES = re.compile(r"\{([\w,.-]+)\}")
# The subcommands in the help of a group.
_GROUP = re.compile(r"^  COMMAND\n((?: {4}.*\n)+)", re.M)
_WORD = re.compile(r"^ {4}([a-z][\w-]*)", re.M)

BASH = """\
_clew() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$(printf '%q' "$line")")
    done < <(clew completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [ "${#COMPREPLY[@]}" -eq 0 ]; then compopt -o default; fi
}
complete -F _clew clew
"""
ZSH = """\
#compdef clew
_clew() {
    local -a found
    found=("${(@f)$(clew completion --words "${(@)words[2,$CURRENT]}" 2>/dev/null)}")
    if [ -n "$found" ]; then compadd -Q -- "${(@q)found}"; else _files; fi
}
compdef _clew clew
"""
FISH = """\
function __clew_words
    set -l words (commandline -opc) (commandline -ct)
    clew completion --words $words[2..-1] 2>/dev/null
end
complete -c clew -a '(__clew_words)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def main(argv: list[str], commands: Commands) -> int:
    if argv[:1] == ["--words"]:
        for word in dict.fromkeys(words_for(argv[1:] or [""], commands)):
            sys.stdout.write(f"{word}\n")
        return 0
    if argv[:1] and argv[0] in SCRIPTS:
        sys.stdout.write(SCRIPTS[argv[0]])
        return 0
    is_help = argv[:1] in (["-h"], ["--help"])
    (sys.stdout if is_help else sys.stderr).write(
        "usage: clew completion bash|zsh|fish\n\n"
        "Print a script that completes clew's commands, options and sessions:\n"
        '  bash   eval "$(clew completion bash)"     in ~/.bashrc\n'
        '  zsh    eval "$(clew completion zsh)"      in ~/.zshrc, after compinit\n'
        "  fish   clew completion fish | source      in ~/.config/fish/config.fish\n"
    )
    return 0 if is_help else 2


def words_for(typed: Sequence[str], commands: Commands) -> Iterator[str]:
    """Yield the completions of the last word in `typed`, which may be partial."""
    prefix, before = typed[-1], list(typed[:-1])
    words: Iterator[str] | list[str]
    if not before:
        words = [*sorted(commands), *OPTIONS]
    elif before[0] not in commands:
        words = of_a_session(prefix, before[-1])
    elif before[0] == "sessions" and len(before) == 1:
        words = [*WORDS, "--help"]
    elif prefix.startswith("-"):
        words = sorted(set(_OPTION.findall(help_of(before, commands))))
    elif before[0] == "completion":
        words = list(SHELLS)
    elif before[-1] == "--session":
        words = sessions()
    elif before[-1] == "--store" or (before[0] == "sessions" and before[1] in WITHOUT_SESSIONS):
        words = []  # the shell completes files and folders itself
    elif before[0] in ("sessions", "context", "cost"):
        words = sessions()
    else:
        words = choices_in(help_of(before, commands))
    return (word for word in words if word.startswith(prefix))


OPTIONS = sorted([*by_spelling(), "-h", "--help", "-v", "--version"])


def of_a_session(prefix: str, before: str) -> Iterator[str] | list[str]:
    """Return the completions for a command line that starts a session.

    `prefix` is the start of the last word, and `before` is the word before it.
    """
    if prefix.startswith("-"):
        return OPTIONS
    row = by_spelling().get(before)
    if row is None:
        return []
    return sessions() if row.field == "resume" else list(row.flag.choices)


def help_of(before: Sequence[str], commands: Commands) -> str:
    """Return the help text of a command."""
    buffer = io.StringIO()
    os.environ["COLUMNS"] = "200"
    with contextlib.redirect_stdout(buffer), contextlib.redirect_stderr(io.StringIO()):
        for tried in (before[1:2], []):
            with contextlib.suppress(SystemExit):
                commands[before[0]]([*(w for w in tried if not w.startswith("-")), "--help"])
            if buffer.getvalue():
                break
    return buffer.getvalue()


def choices_in(text: str) -> list[str]:
    """Return the subcommands and choices in a help text."""
    choices = [word for choices in _CHOICES.findall(text) for word in choices.split(",")]
    return [*choices, *(word for group in _GROUP.findall(text) for word in _WORD.findall(group))]


def sessions() -> Iterator[str]:
    """Yield the newest sessions of this folder: their custom titles first, then their IDs."""
    from clew.commands.sessions.output import find_home
    from clew.record.library.listing import list_newest_first

    newest = list_newest_first(find_home(), str(Path.cwd()), everywhere=False)
    outlines = [outline for outline, _ in zip(newest, range(SESSIONS_SHOWN), strict=False)]
    for outline in outlines:
        if outline.custom_title and outline.custom_title.isprintable():
            yield outline.custom_title
    for outline in outlines:
        yield outline.session_id
