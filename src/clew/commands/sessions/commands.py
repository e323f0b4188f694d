"""`clew sessions WORD`: the table of the words, and the way to the one that was said.

A word's module is loaded when it is called. It offers `WORD_arguments(parser)` and `run_WORD(options) -> int`;
every word has `--json`.
"""

import sqlite3
import sys
from importlib import import_module

from clew.commands.sessions.output import CANNOT, FINE, CannotError
from clew.core.messages.errors import ClewError, in_words
from clew.system.command_groups import Group

# word -> (module, what it does)
WORDS: dict[str, tuple[str, str]] = {
    "list": ("listing", "the sessions of this folder, newest first"),
    "show": ("show", "the conversation as it would be resumed"),
    "search": ("show", "words in all sessions, subagents and tool output included"),
    "check": ("check", "hold files to the rules; exit 1 if one is broken"),
    "repair": ("repair", "make a damaged session whole; the original stays"),
    "tree": ("show", "the prompts of all its branches, and its forks"),
    "fork": ("change", "a copy up to any message; the session stays as it is"),
    "graft": ("change", "bring a part of one session to the end of another"),
    "export": ("transfer", "as one HTML page, as Markdown, JSON or JSONL, subagents included"),
    "import": ("transfer", "files of clew, Claude Code, Codex and pi; says what is lost"),
    "push": ("transfer", "its lines to a store: a folder or a URL"),
    "pull": ("transfer", "home from a store; what is here and not there stays"),
    "rename": ("change", "give a session a title"),
    "tag": ("change", "give a session a label"),
    "rewind": ("change", "files and conversation back to a message, and back again"),
    "archive": ("storage", "put sessions aside instead of deleting them, and bring them back"),
    "du": ("show", "what lies on the disk, and how much of it"),
    "prune": ("storage", "take away what you name, after showing it; never anything else"),
    "erase": ("storage", "take a text out of a session for good, after showing where it stands"),
    "stats": ("show", "all sessions in numbers"),
    "relocate": ("storage", "bring the sessions of a moved or renamed project along"),
    "index": ("repair", "bring the search index up to date, or make it anew"),
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
    module = import_module(f"clew.commands.sessions.{name}")
    parser = Group(prog=f"clew sessions {word}", description=what)
    getattr(module, f"{word}_arguments")(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(argv[1:])
    try:
        code: int = getattr(module, f"run_{word}")(options)
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
