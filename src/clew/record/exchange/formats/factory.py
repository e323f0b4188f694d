"""Convert Factory droid sessions: a header, then Messages API messages. Does no I/O."""

from collections.abc import Iterator

from clew.core.json_object import object_of, text_of
from clew.record.exchange.formats.conversion import Converted
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import take_message


def recognizes(source: Source) -> bool:
    head = source.first
    return head.get("type") == "session_start" and type(head.get("id")) is str


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    head, *lines = source.lines
    build = begin(text_of(head.get("id")))
    build.item()
    build.keep()
    build.out.title = text_of(head.get("sessionTitle")) or text_of(head.get("title"))
    build.out.cwd = text_of(head.get("cwd"))
    build.time(head.get("timestamp"))
    for line in lines:
        build.item(line.get("id"))
        at = build.time(line.get("timestamp"))
        if line.get("type") == "message":
            message = object_of(line.get("message"))
            take_message(build, message, at)
        elif line.get("type") == "compaction_state" and text_of(line.get("summaryText")):
            build.compact(text_of(line["summaryText"]), at)
        else:
            build.lose(f"line of type {text_of(line.get('type')) or 'none'}")
    yield build.finished()


FORMAT = Format(name="factory", title="Factory droid", recognizes=recognizes, convert=convert)
