"""`clew sessions why`: show which prompts and tool calls wrote the lines of a file."""

import argparse
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from clew.commands.sessions.output import (
    FINE,
    FOUND,
    CannotError,
    find_cwd,
    find_home,
    say,
    say_json,
)
from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode_object
from clew.core.messages.text import format_count
from clew.record.library.branches import find_prompt_above
from clew.record.library.places import list_worktrees
from clew.record.library.search import folders_of
from clew.record.rewind.authorship import (
    OTHERS,
    Authorship,
    LineEdit,
    Span,
    compare_lines,
    split_lines,
)
from clew.record.rewind.changes import text_of_path
from clew.record.rewind.disk import Blobs, blobs_dir
from clew.record.rewind.watch import place_files
from clew.record.transcript.source import open_source
from clew.system.clock import format_local_timestamp
from clew.system.command_groups import GroupWord, argument
from clew.system.files import is_there, read_content

SNAPSHOT = b'"type":"attribution-snapshot"'


class WritingCall(Struct, frozen=True, kw_only=True):
    """A call that wrote lines: its transcript, and the message that contains it."""

    transcript: Path
    message_uuid: str
    timestamp: str


class Why(Struct, frozen=True, kw_only=True):
    """The current lines of a file, their authors, and the calls that wrote them, by ID."""

    lines: list[bytes]
    spans: tuple[Span, ...]
    writings: dict[str, WritingCall]


def run_why(options: argparse.Namespace) -> int:
    name, line = split_name(options.file)
    path = place_files(name)
    why = find_authors(path)
    if line is not None and not 0 < line <= len(why.lines):
        raise CannotError(
            f"{path}: line {line} not found; the file has {format_count(len(why.lines), 'line')}"
        )
    spans = [span for span in why.spans if line is None or span[0] < line <= span[0] + span[1]]
    authors = [describe_span(span, why) for span in spans]
    if options.json:
        say_json({"path": path, "lines": len(why.lines), "spans": authors})
        return FINE if authors else FOUND
    if line is not None:
        say(f"{line}: {why.lines[line - 1].decode('utf-8', 'replace')}")
    for facts in authors:
        for text in format_span(facts):
            say(text)
    if line is None:
        known = sum(count for _, count, _ in why.spans)
        say(
            f"{format_count(len(why.lines) - known, 'line')} of {len(why.lines)} without a known author"
        )
    elif not authors:
        say("no session of this folder wrote this line")
    return FINE if authors else FOUND


def split_name(name: str) -> tuple[str, int | None]:
    """Return the file and the line number of FILE:LINE."""
    front, colon, last = name.rpartition(":")
    if colon and last.isascii() and last.isdigit() and not is_there(Path(name)):
        return front, int(last)
    return name, None


def find_authors(path: str) -> Why:
    """Return the authors of a file's current lines, from all sessions of this folder."""
    data = read_content(Path(path))
    blobs, content = Blobs(blobs_dir(find_home())), sha256(data).hexdigest()
    key, writings = text_of_path(path), dict[str, WritingCall]()
    lines = sorted(read_snapshots(), key=lambda pair: text_of(pair[1].get("timestamp")))
    authors = Authorship()
    for transcript, entry in lines:
        authors.read(entry)
        for file in object_of(entry.get("fileStates")).values():
            for edit in list_of(object_of(file).get("edits")):
                writings[text_of(object_of(edit).get("by"))] = WritingCall(
                    transcript=transcript,
                    message_uuid=text_of(entry.get("messageId")),
                    timestamp=text_of(entry.get("timestamp")),
                )
    newest = authors.newest.get(key)
    if newest is not None and not authors.knows(key, content):
        before = blobs.get(newest)
        hunks = None if before is None else compare_lines(before, data)
        if hunks is not None:
            edit = LineEdit(author=OTHERS, before=newest, after=content, hunks=hunks)
            authors.edit(key, edit)
    return Why(lines=split_lines(data), spans=authors.spans(key, content), writings=writings)


def read_snapshots() -> Iterator[tuple[Path, Json]]:
    """Yield the snapshots in this folder's sessions, each with its transcript."""
    for folder in folders_of(find_home(), list_worktrees(find_cwd())):
        for transcript in sorted(Path(folder).glob("*.jsonl")):
            with open_source(transcript) as source:
                for _, _, raw in source.lines(0):
                    entry = decode_object(raw) if SNAPSHOT in raw else {}
                    if entry.get("type") == "attribution-snapshot":
                        yield transcript, entry


@cache
def find_prompt(transcript: Path, message_uuid: str) -> str | None:
    """Return the prompt of a message; None if none precedes it, as for a subagent's message."""
    prompt = find_prompt_above(transcript, message_uuid)
    return None if prompt is None else prompt.text


def describe_span(span: Span, why: Why) -> Json:
    first, count, author = span
    facts: Json = {"first": first + 1, "last": first + count, "by": author}
    writing = why.writings.get(author)
    if writing is None or author == OTHERS:
        return facts
    prompt = find_prompt(writing.transcript, writing.message_uuid)
    return facts | {
        "sessionId": writing.transcript.stem,
        "messageUuid": writing.message_uuid,
        "timestamp": writing.timestamp,
        "prompt": prompt,
    }


def format_span(facts: Json) -> Iterator[str]:
    first, last = facts["first"], facts["last"]
    where = f"line {first}" if first == last else f"lines {first}-{last}"
    if "sessionId" not in facts:
        yield f"{where}: written outside clew: by you, an editor or a hook"
        return
    at = format_local_timestamp(facts["timestamp"])
    yield f"{where}: session {facts['sessionId'][:8]}, message {facts['messageUuid'][:8]}, {at}"
    yield f"  prompt: {facts['prompt'] or '(from a subagent)'}"


WORDS = {
    "why": GroupWord(
        run_why, argument("file", metavar="FILE[:LINE]", help="A file, or one line of it")
    )
}
