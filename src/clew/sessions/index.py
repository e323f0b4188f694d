"""`clew sessions index`: brings the search index up to date, or makes it anew."""

import argparse

from clew.library.database import database_path
from clew.library.indexing import update
from clew.messages.counts import size_of
from clew.sessions.output import FINE, Bar, home, say, say_json


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rebuild", action="store_true", help="throw it away first")


def run(options: argparse.Namespace) -> int:
    with Bar("reading sessions") as bar:
        read_bytes = update(home(), bar, anew=options.rebuild)
    path = database_path(home())
    if options.json:
        say_json({"path": str(path), "readBytes": read_bytes, "sizeBytes": path.stat().st_size})
    else:
        say(f"read {size_of(read_bytes)}; the index is {size_of(path.stat().st_size)}: {path}")
    return FINE
