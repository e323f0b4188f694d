"""Convert aider's chat history, a Markdown file with all chats of a project. Does no I/O.

Prompts are level-4 headings, program output is quoted, and the rest is the response. The file has
no IDs and no calls, and only the start time of each chat, without a time zone.
"""

import re
from collections.abc import Iterator

from clew.record.exchange.formats.conversion import Builder, Converted, make_text
from clew.record.exchange.formats.frame import Begin, Format, Source

_HEAD = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_MODEL = re.compile(r"> (?:Main model|Model): (\S+)")
SCREEN = "program output"


def recognizes(source: Source) -> bool:
    start = source.text[:4096].lstrip("\ufeff \r\n")
    return _HEAD.match(start) is not None


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    chats: list[tuple[str, list[str]]] = []
    for raw in source.text.split("\n"):
        line = raw.rstrip("\r").removeprefix("\ufeff")
        if match := _HEAD.fullmatch(line):
            chats.append((match[1], []))
        elif chats:
            chats[-1][1].append(line)
    for index, (started, lines) in enumerate(chats):
        if any(line.startswith("#### ") for line in lines):
            build = begin("", f"{index} {started}")
            build.out.cwd = source.folder
            yield _convert(build, started, lines)


def _convert(build: Builder, started: str, lines: list[str]) -> Converted:
    at = build.time(started.replace(" ", "T"))
    model = ""
    kind = ""
    block: list[str] = []

    def flush() -> None:
        text = "\n".join(block).strip()
        if text:
            build.item()
            if kind == "prompt":
                build.say(text, at)
            elif kind == "response":
                build.answer([make_text(text)], at, model=model)
            else:
                build.lose(SCREEN)
        block.clear()

    for line in lines:
        if match := _MODEL.match(line):
            model = match[1]
        if line.startswith("####"):
            now, words = "prompt", line[4:].removeprefix(" ").rstrip()
        elif line.startswith(">"):
            now, words = "screen", line
        else:
            # Empty lines belong to the surrounding message.
            now, words = ("response" if line.strip() or kind == "response" else kind), line
        if now != kind:
            flush()
            kind = now
        block.append(words)
    flush()
    return build.finished()


FORMAT = Format(name="aider", title="aider", is_text=True, recognizes=recognizes, convert=convert)
