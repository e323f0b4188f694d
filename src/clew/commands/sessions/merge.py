"""`clew sessions merge`: merge two continuations of one session."""

import argparse

from clew.commands.sessions.output import (
    CANNOT,
    FINE,
    FOUND,
    find_transcript,
    say,
    say_json,
    say_waiting,
)
from clew.core.messages.text import format_count
from clew.record.library.merging import merge
from clew.record.transcript import light
from clew.system.clock import get_timestamp
from clew.system.command_groups import GroupWord, argument


def run_merge(options: argparse.Namespace) -> int:
    first, second = find_transcript(options.a), find_transcript(options.b)
    if say_waiting(first) or say_waiting(second):
        return CANNOT
    outline = light.read_outline(first)
    title = options.title or f"{outline.title if outline else first.stem} (merged)"
    result = merge(first, second, title=title, now=get_timestamp)
    if options.json:
        say_json(
            {
                "sessionId": result.path.stem,
                "path": str(result.path),
                "shared": result.shared,
                "onlyA": result.only_first,
                "onlyB": result.only_second,
                "changedByB": list(result.changed),
                "conflicts": [{"kind": "file", "path": path} for path in result.conflicts],
            }
        )
    else:
        say(
            f"{result.path.stem}: {format_count(result.shared, 'message')} in both, "
            f"{result.only_first:,} only in {first.stem[:8]}, {result.only_second:,} only in"
            f" {second.stem[:8]} (now a branch)"
        )
        for path in result.conflicts:
            say(f"conflict: both sessions changed {path}")
    return FOUND if result.conflicts else FINE


WORDS = {
    "merge": GroupWord(
        run_merge,
        argument("a", metavar="A", help="Session whose messages become the conversation"),
        argument("b", metavar="B", help="Session whose messages become a branch"),
        argument("--title", help="Title of the merged session"),
    )
}
