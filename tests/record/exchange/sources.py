"""Sources of imports without files, and their conversion."""

import json
from itertools import count
from typing import Any

from clew.core.messages.kinds import find_faults
from clew.record.exchange.formats.conversion import Builder, Converted
from clew.record.exchange.formats.frame import Format, Source
from clew.record.exchange.formats.registry import find_format

Json = dict[str, Any]


def of_lines(*lines: Json, **more: Any) -> Source:
    text = "\n".join(json.dumps(line) for line in lines)
    return Source(name="x.jsonl", text=text, lines=lines, **more)


def of_value(value: Any, **more: Any) -> Source:
    lines = [value] if isinstance(value, dict) else []
    return Source(name="x.json", text=json.dumps(value), document=value, lines=lines, **more)


def convert_as(form: Format, source: Source) -> list[Converted]:
    """Convert a source with numbered IDs, and check that the account of its items adds up."""
    numbers = count(1)

    def begin(source_id: str, seed: str = "") -> Builder:
        del seed
        return Builder(
            form.name, source_id, lambda: f"00000000-0000-4000-8000-{next(numbers):012x}"
        )

    found = list(form.convert(source, begin))
    for converted in found:
        assert not any(map(find_faults, converted.messages))
        tally = converted.tally
        changed, left_out = sum(tally.changed.values()), sum(tally.left_out.values())
        assert tally.items == tally.kept + changed + left_out
    return found


def convert_one(source: Source, name: str) -> Converted:
    """Convert a source that only the named format recognizes, and that has one session."""
    form = find_format(source)
    assert form is not None
    assert form.name == name
    (found,) = convert_as(form, source)
    return found


def outline(converted: Converted) -> list[str]:
    """Return what each message is, as short words."""
    words = []
    for message in converted.messages:
        body = message.get("message")
        if body is None:
            words.append(message["subtype"])
            continue
        content = body["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        meta = " (meta)" if message.get("isMeta") else ""
        for block in blocks:
            said = block.get("text") or block.get("thinking") or block.get("input")
            said = said or block.get("content") or block.get("source", {}).get("media_type")
            shown = said if isinstance(said, str) else json.dumps(said)
            error = " failed" if block.get("is_error") else ""
            words.append(f"{message['type']}{meta} {block['type']}{error}: {shown}")
    return words
