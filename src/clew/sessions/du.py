"""`clew sessions du`: what lies on the disk, and how much of it."""

import argparse

from clew.library.keeping import sizes
from clew.messages.counts import count_of, size_of
from clew.sessions.output import FINE, home, say, say_closed, say_json


def arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(options: argparse.Namespace) -> int:
    say_closed(everywhere=True)
    found = sizes(home())
    total = sum(one.size_bytes for one in found)
    if options.json:
        say_json(
            {
                "totalBytes": total,
                "parts": [
                    {"name": s.name, "path": s.path, "files": s.files, "sizeBytes": s.size_bytes}
                    for s in found
                ],
            }
        )
        return FINE
    for one in sorted(found, key=lambda one: -one.size_bytes):
        if one.files:
            say(
                f"{size_of(one.size_bytes):>9}  {count_of(one.files, 'file'):>12}  {one.name}  {one.path}"
            )
    say(f"{size_of(total):>9}  in all")
    return FINE
