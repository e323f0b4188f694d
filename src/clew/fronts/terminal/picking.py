"""Which session a person wants to go on with: the newest of this folder, numbered; an answer by number or words.

Used where `--resume` came without a session. Without a terminal nobody can be asked: the list is the answer.
"""

import os
import sys
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from clew.agent.options import Options
from clew.core.messages.errors import CommandLineError
from clew.fronts.terminal.session_chooser import when
from clew.record.library.listing import newest_first
from clew.record.transcript.light import Outline
from clew.system.config.paths import find_config_home

SHOWN = 20


def picked(options: Options) -> Options:
    """The options with the session that was chosen; raises `CommandLineError` if none was."""
    found = recent()
    lines = [_row(number, one) for number, one in enumerate(found, 1)]
    if options.is_print or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandLineError("--resume: name one of these:\n" + "\n".join(lines))
    print("\n".join(lines))
    answer = _asked(found)
    return replace(options, resume=answer)


def recent(most: int = SHOWN) -> list[Outline]:
    """The newest sessions of this folder; raises `CommandLineError` if there is none."""
    home, cwd = find_config_home(os.environ, Path.cwd()), str(Path.cwd())
    found = list(islice(newest_first(home, cwd, everywhere=False), most))
    if not found:
        raise CommandLineError("--resume: no session of this folder; `clew sessions list --all`")
    return found


def _asked(found: list[Outline]) -> str:
    try:
        answer = input("which (number, id or title; Enter for the first)? ").strip()
    except EOFError:
        raise CommandLineError("--resume: no session was chosen") from None
    if not answer:
        return str(found[0].path)
    if answer.isdecimal() and 1 <= int(answer) <= len(found):
        return str(found[int(answer) - 1].path)
    return answer


def _row(number: int, one: Outline) -> str:
    return f"{number:>3}  {when(one)}  {one.session_id}  {title(one)}"


def title(one: Outline) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in one.title[:70])
