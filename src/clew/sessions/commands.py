"""`clew sessions WORD`: the table of the words, and the way to the one that was said.

A word's module is loaded when it is called. It offers `arguments(parser)` and `run(options) -> int`;
every word has `--json`.
"""

import sqlite3
import sys
from importlib import import_module

from clew.config.words import Group
from clew.messages.errors import ClewError, in_words
from clew.sessions.output import CANNOT, FINE, CannotError

# word -> (module, what it does)
WORDS: dict[str, tuple[str, str]] = {
    "list": ("listing", "the sessions of this folder, newest first"),
    "show": ("show", "the conversation as it would be resumed"),
    "search": ("search", "words in all sessions, subagents and tool output included"),
    "check": ("check", "hold files to the rules; exit 1 if one is broken"),
    "repair": ("repair", "make a damaged session whole; the original stays"),
    "tree": ("tree", "the prompts of all its branches, and its forks"),
    "fork": ("fork", "a copy up to any message; the session stays as it is"),
    "graft": ("graft", "bring a part of one session to the end of another"),
    "export": ("export", "as one HTML page, as Markdown, JSON or JSONL, subagents included"),
    "import": ("importing", "files of clew, Claude Code, Codex and pi; says what is lost"),
    "push": ("push", "its lines to a store: a folder or a URL"),
    "pull": ("pull", "home from a store; what is here and not there stays"),
    "rename": ("rename", "give a session a title"),
    "tag": ("tag", "give a session a label"),
    "rewind": ("rewind", "files and conversation back to a message, and back again"),
    "archive": ("archive", "put sessions aside instead of deleting them, and bring them back"),
    "du": ("du", "what lies on the disk, and how much of it"),
    "prune": ("prune", "take away what you name, after showing it; never anything else"),
    "erase": ("erase", "take a text out of a session for good, after showing where it stands"),
    "stats": ("stats", "all sessions in numbers"),
    "relocate": ("relocate", "bring the sessions of a moved or renamed project along"),
    "index": ("index", "bring the search index up to date, or make it anew"),
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
    name, what = WORDS[word]
    module = import_module(f"clew.sessions.{name}")
    parser = Group(prog=f"clew sessions {word}", description=what)
    module.arguments(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(argv[1:])
    try:
        code: int = module.run(options)
    except BrokenPipeError:
        raise  # whoever read us has seen enough, which is no failure: the door knows
    except (CannotError, ClewError, OSError, sqlite3.Error) as error:
        sys.stderr.write(f"clew sessions: {in_words(error)}\n")
        return CANNOT
    return code


def _unknown(word: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, WORDS, n=1)
    return f"no word {word!r}; " + (f"did you mean {near[0]}?" if near else "see --help")
