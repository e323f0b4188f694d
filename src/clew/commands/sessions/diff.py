"""`clew sessions diff`: show what two branches share, and the messages that only one contains."""

import argparse
from collections.abc import Iterator

from clew.commands.sessions.output import FINE, FOUND, find_saved_part, say_json
from clew.commands.sessions.show import format_message
from clew.commands.styled import print_pieces
from clew.core.json_object import Json
from clew.core.messages.text import format_count
from clew.record.library.branches import SAID, find_prompt_above, read_branch
from clew.record.library.merging import origin_of
from clew.record.rewind.restore import resolve_message
from clew.system.command_groups import GroupWord, argument

# Separates a session from a message, as Git's `name@{...}` does.
AT = "@"


def run_diff(options: argparse.Namespace) -> int:
    sides = [_messages_of(name) for name in (options.a, options.b)]
    uuids = [{origin_of(message) for message in side} for side in sides]
    shared = [m for m in sides[0] if origin_of(m) in uuids[1]]
    only_a = [m for m in sides[0] if origin_of(m) not in uuids[1]]
    only_b = [m for m in sides[1] if origin_of(m) not in uuids[0]]
    if options.json:
        say_json(
            {
                "shared": [message["uuid"] for message in shared],
                "onlyA": only_a,
                "onlyB": only_b,
            }
        )
    else:
        last = f", up to {shared[-1]['uuid'][:8]}" if shared else ""
        print_pieces(("quiet", f"{format_count(len(shared), 'message')} in both{last}"))
        for sign, style, name, only in (
            ("-", "bad", options.a, only_a),
            ("+", "good", options.b, only_b),
        ):
            print_pieces((style, f"{sign} {format_count(len(only), 'message')} only in {name}"))
            for line in _lines(only):
                print_pieces((style, sign), f" {line}")
    return FOUND if only_a or only_b else FINE


def _messages_of(name: str) -> list[Json]:
    """Return the messages of `SESSION`, or of the branch that ends with `SESSION@MESSAGE`.

    A prompt represents its entire turn, because `clew sessions tree` lists branches by prompts.
    """
    session, at, message = name.rpartition(AT)
    path = find_saved_part(session if at else name)
    end = None
    if at:
        end = resolve_message(path, message)
        prompt = find_prompt_above(path, end)
        if prompt is not None and prompt.uuid == end:
            end = prompt.end
    return [m for m in read_branch(path, end).messages if m.get("type") in SAID]


def _lines(messages: list[Json]) -> Iterator[str]:
    for message in messages:
        for text in format_message(message):
            yield from text.splitlines()


BRANCH = "session, or SESSION@MESSAGE for the branch that ends at MESSAGE"
WORDS = {
    "diff": GroupWord(
        run_diff,
        argument("a", metavar="A", help=f"First {BRANCH}"),
        argument("b", metavar="B", help=f"Second {BRANCH}"),
    )
}
