"""The table of `clew sessions` commands, and their dispatch.

A command's module is imported only when the command is called; its `WORDS` define the arguments.
Every command has `--json`.
"""

import sqlite3
import sys
from collections.abc import Callable, Mapping
from typing import TypeAlias

from clew.commands.sessions.output import CANNOT, FINE, CannotError
from clew.core.messages.errors import ClewError, describe_error
from clew.core.nearest import suggest_nearest
from clew.system.command_groups import Group, GroupWord

Words: TypeAlias = Mapping[str, GroupWord]


def load_listing() -> Words:
    from clew.commands.sessions.listing import WORDS

    return WORDS


def load_show() -> Words:
    from clew.commands.sessions.show import WORDS

    return WORDS


def load_diff() -> Words:
    from clew.commands.sessions.diff import WORDS

    return WORDS


def load_merge() -> Words:
    from clew.commands.sessions.merge import WORDS

    return WORDS


def load_why() -> Words:
    from clew.commands.sessions.why import WORDS

    return WORDS


def load_repair() -> Words:
    from clew.commands.sessions.repair import WORDS

    return WORDS


def load_change() -> Words:
    from clew.commands.sessions.change import WORDS

    return WORDS


def load_transfer() -> Words:
    from clew.commands.sessions.transfer import WORDS

    return WORDS


def load_watch() -> Words:
    from clew.commands.sessions.watch import WORDS

    return WORDS


def load_storage() -> Words:
    from clew.commands.sessions.storage import WORDS

    return WORDS


# command -> (loader, description)
WORDS: dict[str, tuple[Callable[[], Words], str]] = {
    "list": (load_listing, "List the sessions of this folder, newest first"),
    "show": (load_show, "Show a conversation as it would be resumed"),
    "search": (load_show, "Search all sessions, subagents and tool output"),
    "check": (load_repair, "Validate session files (exit 1 on problems)"),
    "repair": (load_repair, "Repair a damaged session (keeps the original)"),
    "tree": (load_show, "Show the prompts of all branches, and the forks"),
    "diff": (load_diff, "Compare two branches or sessions (exit 1 if they differ)"),
    "why": (load_why, "Show which prompt each line of a file comes from"),
    "merge": (load_merge, "Merge two continuations of a session (exit 1 on conflicts)"),
    "fork": (load_change, "Copy a session up to any message"),
    "graft": (load_change, "Append part of one session to another"),
    "export": (load_transfer, "Export a session as HTML, Markdown, JSON or JSONL"),
    "import": (load_transfer, "Import sessions from clew or another agent"),
    "watch": (load_watch, "Keep copies of other agents' sessions up to date"),
    "push": (load_transfer, "Upload sessions to a store (folder or URL)"),
    "pull": (load_transfer, "Download sessions from a store (never deletes local data)"),
    "rename": (load_change, "Set a session's title"),
    "tag": (load_change, "Set a session's tag"),
    "rewind": (load_change, "Rewind files and conversation to a message"),
    "archive": (load_storage, "Archive sessions, or restore them"),
    "du": (load_show, "Show disk usage"),
    "prune": (load_storage, "Delete caches, backups or sessions that you name"),
    "erase": (load_storage, "Permanently erase text from a session"),
    "stats": (load_show, "Show statistics over all sessions"),
    "relocate": (load_storage, "Move sessions after a project has been moved or renamed"),
    "index": (load_repair, "Update or rebuild the search index"),
}


def help_text() -> str:
    words = "\n".join(f"  {word:<10} {what}" for word, (_, what) in WORDS.items())
    return (
        "usage: clew sessions [-h] COMMAND ...\n\n"
        "List, search, check, repair and move sessions.\n"
        "A SESSION is an ID or at least 8 characters of one, an exact title or a file.\n"
        "Nothing is deleted automatically.\n\n"
        f"{words}\n\n"
        "Run clew sessions COMMAND --help for a command's options. All commands accept --json.\n"
    )


def main(argv: list[str]) -> int:
    word = argv[0] if argv else ""
    if word in ("-h", "--help"):
        sys.stdout.write(help_text())
        return FINE
    if word not in WORDS:
        sys.stderr.write(help_text() if not word else f"clew sessions: {_unknown(word)}\n")
        return CANNOT
    load, what = WORDS[word]
    called = load()[word]
    parser = Group(prog=f"clew sessions {word}", description=what)
    parser.take(called)
    parser.add_argument("--json", action="store_true", help="Print the result as JSON")
    options = parser.parse_args(argv[1:])
    try:
        code = called.run(options)
    except BrokenPipeError:
        raise  # the reader closed the pipe, which is not an error; the caller handles it
    except (CannotError, ClewError, OSError, sqlite3.Error) as error:
        sys.stderr.write(f"clew sessions: {describe_error(error)}\n")
        return CANNOT
    return code or FINE


def _unknown(word: str) -> str:
    hint = suggest_nearest(word, WORDS) or " (see --help)"
    return f'unknown command "{word}"{hint}'
