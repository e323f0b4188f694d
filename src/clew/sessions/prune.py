"""`clew sessions prune`: takes away what a person names, after showing it; never anything else."""

import argparse

from clew.library.keeping import Removable, removable, remove, session
from clew.messages.counts import count_of, size_of
from clew.sessions.output import CANNOT, FINE, Bar, home, say, say_json, say_waiting, transcript

KINDS = ("index", "contents", "backups", "archive")


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "what",
        nargs="+",
        help="index; contents (of files that no session can go back to any more); backups; archive; "
        "or sessions: id, title or file",
    )
    add("--yes", action="store_true", help="do it; without it, it is only shown")


def run(options: argparse.Namespace) -> int:
    found: list[Removable] = []
    is_left_out = False
    for what in options.what:
        if what in KINDS:
            with Bar("reading sessions") as bar:
                found += removable(home(), what, bar)
        elif say_waiting(path := transcript(what)):
            is_left_out = True
        else:
            found.append(session(path))
    if is_left_out and not found:
        return CANNOT
    if options.yes:
        for one in found:
            remove(home(), one)
    code = CANNOT if is_left_out else FINE
    total = sum(one.size_bytes for one in found)
    if options.json:
        say_json(
            {
                "removed": options.yes,
                "sizeBytes": total,
                "what": [
                    {"kind": r.kind, "name": r.name, "sizeBytes": r.size_bytes} for r in found
                ],
            }
        )
        return code
    for one in found:
        say(f"{size_of(one.size_bytes):>9}  {one.kind}  {one.name}")
    did = "removed for good" if options.yes else "would be removed for good; --yes does it"
    say(f"{count_of(len(found), 'thing')}, {size_of(total)}: {did}")
    return code
