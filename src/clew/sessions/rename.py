"""`clew sessions rename`: a title of the person's own; no line of the conversation changes."""

import argparse

from clew.library.copies import append_beside
from clew.sessions.output import FINE, say, say_json, transcript
from clew.transcript.examine import session_id_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help="id, title or file")
    parser.add_argument("title", help="the new title; an empty one takes it away")


def run(options: argparse.Namespace) -> int:
    path = transcript(options.session)
    session_id = session_id_of(path)
    line = {"type": "custom-title", "customTitle": options.title, "sessionId": session_id}
    append_beside(path, line)
    if options.json:
        say_json({"sessionId": session_id, "title": options.title or None})
    else:
        say(f"{session_id}: {options.title or '(no title)'}")
    return FINE
