"""`clew sessions tree`: the prompts of a session on all its branches, and what was forked from it."""

import argparse
from pathlib import Path
from typing import Any

from clew.library.branches import prompts
from clew.messages.encoding import decode
from clew.sessions.output import FINE, count, say, say_json, transcript
from clew.transcript import light


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help="id, title or file")


def run(options: argparse.Namespace) -> int:
    path = transcript(options.session)
    found = list(prompts(path))
    lineage = _lineage(path)
    forks = [
        {"sessionId": other.stem, "messageUuid": said["messageUuid"]}
        for other in light.session_files(path.parent)
        if (said := _lineage(other)) is not None and said["sessionId"] == path.stem
    ]
    if options.json:
        say_json(
            {
                "sessionId": path.stem,
                "forkedFrom": lineage,
                "prompts": [
                    {
                        "uuid": one.uuid,
                        "text": one.text,
                        "timestamp": one.timestamp,
                        "depth": one.depth,
                        "messages": one.messages,
                        "live": one.live,
                    }
                    for one in found
                ],
                "forks": forks,
            }
        )
        return FINE
    if lineage:
        say(f"a fork of {lineage['sessionId']} at {lineage['messageUuid']}")
    for one in found:
        mark = "●" if one.live else "○"
        text = one.text if len(one.text) <= 90 else one.text[:89] + "…"
        say(f"{'│ ' * one.depth}{mark} {one.uuid[:8]}  {text}  ({count(one.messages, 'message')})")
    for fork in forks:
        say(f"forked at {fork['messageUuid'][:8]}: {fork['sessionId']}")
    return FINE


def _lineage(path: Path) -> dict[str, Any] | None:
    """Where a session was forked from, by its first line."""
    try:
        with path.open("rb") as file:
            line = decode(file.readline(1 << 16))
    except (OSError, ValueError):
        return None
    said = line.get("forkedFrom") if type(line) is dict else None
    is_whole = type(said) is dict and all(
        type(said.get(key)) is str for key in ("sessionId", "messageUuid")
    )
    return said if is_whole else None
