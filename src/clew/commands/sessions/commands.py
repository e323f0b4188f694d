"""`clew sessions WORD`: the table of the words, and the way to the one that was said.

A word's module is loaded when it is called; its `WORDS` say what the word takes and does. Every word has
`--json`.
"""

import sqlite3
import sys
from collections.abc import Callable, Mapping
from typing import TypeAlias

from clew.commands.sessions.output import CANNOT, FINE, CannotError
from clew.core.messages.errors import ClewError, describe_error
from clew.system.command_groups import Group, GroupWord

Words: TypeAlias = Mapping[str, GroupWord]


def load_listing() -> Words:
    from clew.commands.sessions.listing import WORDS

    return WORDS


def load_show() -> Words:
    from clew.commands.sessions.show import WORDS

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


def load_storage() -> Words:
    from clew.commands.sessions.storage import WORDS

    return WORDS


# word -> (what loads it, what it does)
WORDS: dict[str, tuple[Callable[[], Words], str]] = {
    "list": (load_listing, "the sessions of this folder, newest first"),
    "show": (load_show, "the conversation as it would be resumed"),
    "search": (load_show, "words in all sessions, subagents and tool output included"),
    "check": (load_repair, "hold files to the rules; exit 1 if one is broken"),
    "repair": (load_repair, "make a damaged session whole; the original stays"),
    "tree": (load_show, "the prompts of all its branches, and its forks"),
    "fork": (load_change, "a copy up to any message; the session stays as it is"),
    "graft": (load_change, "bring a part of one session to the end of another"),
    "export": (load_transfer, "as one HTML page, as Markdown, JSON or JSONL, subagents included"),
    "import": (load_transfer, "files of clew, Claude Code, Codex and pi; says what is lost"),
    "push": (load_transfer, "its lines to a store: a folder or a URL"),
    "pull": (load_transfer, "home from a store; what is here and not there stays"),
    "rename": (load_change, "give a session a title"),
    "tag": (load_change, "give a session a label"),
    "rewind": (load_change, "files and conversation back to a message, and back again"),
    "archive": (load_storage, "put sessions aside instead of deleting them, and bring them back"),
    "du": (load_show, "what lies on the disk, and how much of it"),
    "prune": (load_storage, "take away what you name, after showing it; never anything else"),
    "erase": (load_storage, "take a text out of a session for good, after showing where it stands"),
    "stats": (load_show, "all sessions in numbers"),
    "relocate": (load_storage, "bring the sessions of a moved or renamed project along"),
    "index": (load_repair, "bring the search index up to date, or make it anew"),
}


def help_text() -> str:
    words = "\n".join(f"  {word:<10} {what}" for word, (_, what) in WORDS.items())
    return (
        "usage: clew sessions [-h] WORD ...\n\n"
        "Look at sessions, search them, check them, repair them, move them.\n"
        "A SESSION is an id or how it begins (8 letters), an exact title or a file. Nothing\n"
        "is ever removed by itself.\n\n"
        f"{words}\n\n"
        "clew sessions WORD --help shows a word's options; every word has --json\n"
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
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(argv[1:])
    try:
        code = called.run(options)
    except BrokenPipeError:
        raise  # whoever read us has seen enough, which is no failure: the door knows
    except (CannotError, ClewError, OSError, sqlite3.Error) as error:
        sys.stderr.write(f"clew sessions: {describe_error(error)}\n")
        return CANNOT
    return code or FINE


def _unknown(word: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, WORDS, n=1)
    return f"no word {word!r}; " + (f"did you mean {near[0]}?" if near else "see --help")
