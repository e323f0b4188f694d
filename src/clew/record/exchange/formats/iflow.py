"""Convert iFlow CLI sessions, whose lines look like those of Claude Code. Does no I/O.

Each call of a response is a line of its own, and the next response refers to the prompt instead of
the results. So the order of the lines is the conversation.
"""

import re
from collections.abc import Iterator

from clew.core.json_object import Json, object_of, text_of
from clew.record.exchange.formats.conversion import Converted
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import take_message

_SESSION = re.compile(r"session-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def recognizes(source: Source) -> bool:
    lines = source.lines[:50]
    return bool(lines) and all(map(_is_own, lines))


def _is_own(line: Json) -> bool:
    is_talk = line.get("type") in ("user", "assistant") and type(line.get("message")) is dict
    return is_talk and "uuid" in line and _find_id(line) != ""


def _find_id(line: Json) -> str:
    match = _SESSION.fullmatch(text_of(line.get("sessionId")))
    return match[1] if match else ""


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    build = begin(_find_id(source.first))
    for line in source.lines:
        build.item(line.get("uuid"))
        build.out.cwd = build.out.cwd or text_of(line.get("cwd"))
        build.out.branch = build.out.branch or text_of(line.get("gitBranch"))
        take_message(build, object_of(line.get("message")), build.time(line.get("timestamp")))
    yield build.finished()


FORMAT = Format(name="iflow", title="iFlow CLI", recognizes=recognizes, convert=convert)
