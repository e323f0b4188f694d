"""`clew sessions tag`: one label for a session, to find it by."""

import argparse

from clew.library.copies import append_beside
from clew.sessions.output import FINE, say, say_json, transcript
from clew.transcript.examine import session_id_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help="id, title or file")
    parser.add_argument("tag", help="the label; an empty one takes it away")


def run(options: argparse.Namespace) -> int:
    path = transcript(options.session)
    session_id = session_id_of(path)
    append_beside(path, {"type": "tag", "tag": options.tag, "sessionId": session_id})
    if options.json:
        say_json({"sessionId": session_id, "tag": options.tag or None})
    else:
        say(f"{session_id}: {'#' + options.tag if options.tag else '(no tag)'}")
    return FINE
