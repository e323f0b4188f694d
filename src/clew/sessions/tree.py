"""`clew sessions tree`: the prompts of a session on all its branches, and what was forked from it."""

import argparse

from clew.library.tree import told, tree
from clew.sessions.output import FINE, saved_part, say, say_json


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help="id, title or file")


def run(options: argparse.Namespace) -> int:
    path = saved_part(options.session)
    found = tree(path)
    if not options.json:
        for line in told(found):
            say(line)
        return FINE
    say_json(
        {
            "sessionId": path.stem,
            "forkedFrom": found.forked_from,
            "prompts": [
                {
                    "uuid": one.uuid,
                    "text": one.text,
                    "timestamp": one.timestamp,
                    "depth": one.depth,
                    "messages": one.messages,
                    "live": one.live,
                }
                for one in found.prompts
            ],
            "forks": found.forks,
        }
    )
    return FINE
