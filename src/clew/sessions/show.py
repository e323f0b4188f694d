"""`clew sessions show`: the conversation as it would be resumed."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from clew.library.words import untagged
from clew.messages.encoding import encode
from clew.sessions.output import FINE, home, say, say_json, transcript
from clew.transcript.unsaved import with_unsaved


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help="id, title or file")
    parser.add_argument("--uuids", action="store_true", help="each message with its uuid")


def run(options: argparse.Namespace) -> int:
    loaded = with_unsaved(transcript(options.session), home())
    if options.json:
        say_json(
            {
                "path": str(loaded.path),
                "leafUuid": loaded.leaf_uuid,
                "messages": loaded.messages,
                "beside": loaded.side.current,
            }
        )
        return FINE
    for message in loaded.messages:
        for line in _shown(message):
            say(f"{message.get('uuid')} {line}" if options.uuids else line)
    return FINE


def _shown(message: dict[str, Any]) -> Iterator[str]:
    said = message.get("message")
    content = said.get("content") if isinstance(said, dict) else message.get("content")
    blocks: Sequence[Any] = content if isinstance(content, list) else [content]
    for block in blocks:
        if isinstance(block, str):
            yield f"{message['type']}: {untagged(block)}"
        elif isinstance(block, dict):
            words = block.get("text") or block.get("thinking") or block.get("content")
            name = block.get("name") or block.get("type")
            shown = words if isinstance(words, str) else encode(block.get("input", words)).decode()
            yield f"{message['type']} [{name}]: {shown}"
