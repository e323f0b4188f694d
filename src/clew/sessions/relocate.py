"""`clew sessions relocate`: a project was moved or renamed; its sessions come along."""

import argparse
from pathlib import Path

from clew.config.there import is_folder
from clew.library.relocate import carry_out, gone, plan
from clew.messages.counts import count_of
from clew.sessions.output import FINE, FOUND, CannotError, cwd, home, say, say_json


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("old", nargs="?", help="where the project was; without it: the folders that are gone")
    add("new", nargs="?", default=".", help="where it is now (this folder)")
    add("--dry-run", action="store_true", help="say what would be done")


def run(options: argparse.Namespace) -> int:
    if options.old is None:
        return _gone(options)
    old, new = str(Path(cwd(), options.old)), str(Path(cwd(), options.new))
    if not is_folder(new):
        raise CannotError(f"{new}: there is no such folder")
    moves = plan(home(), old.rstrip("/"), new)
    if not moves:
        raise CannotError(
            f"no session of {old}; `clew sessions relocate` names folders that are gone"
        )
    if options.dry_run:
        moved, kept = moves, []
    else:
        done = carry_out(home(), moves)
        moved, kept = done.moved, done.kept
    if options.json:
        say_json(
            {
                "moved": [
                    {"sessionId": m.session_id, "from": str(m.source), "to": str(m.target)}
                    for m in moved
                ],
                "kept": [{"sessionId": m.session_id, "reason": why} for m, why in kept],
                "dryRun": options.dry_run,
            }
        )
    else:
        would = "would be moved" if options.dry_run else "moved"
        say(f"{count_of(len(moved), 'session')} of {old} {would} to {new}")
        for move, why in kept:
            say(f"  {move.session_id} stays: {why}")
    return FOUND if kept else FINE


def _gone(options: argparse.Namespace) -> int:
    found = list(gone(home()))
    if options.json:
        say_json([{"cwd": one.cwd, "sessions": one.sessions} for one in found])
        return FINE
    for one in found:
        say(f"{one.cwd}: {count_of(one.sessions, 'session')}")
    if not found:
        say("every folder that has sessions is there")
    return FINE
