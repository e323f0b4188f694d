"""Searches transcripts as they lie on the disk, without an index: the words' bytes first, then sense.

Which files hold the longest word at all is found by ripgrep where there is one, else by reading them
once. Only lines that hold it are decoded. Finds what the index would find, entry by entry.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

from msgspec import Struct

from clew.library.words import Entry, Query, answers, snippet, speaker_of, text_of
from clew.messages.encoding import decode

# Command lines have an end; so many files go into one.
_BATCH = 2000
# More words than these leave out little more.
_NEEDLES_ASKED = 3
# For fewer, starting a program costs more than it saves.
_WORTH_A_PROGRAM_BYTES = 32 << 20


class Line(Struct, frozen=True, kw_only=True):
    """An entry that answers a query, and where it lies."""

    path: str
    at: int
    size: int
    uuid: str | None
    kind: str
    speaker: str
    timestamp: str | None
    snippet: str


def line_of(query: Query, path: str, at: int, raw: bytes) -> Line | None:
    """The entry in `raw` if it answers the query."""
    try:
        entry = decode(raw)
    except ValueError:
        return None
    text = text_of(entry) if type(entry) is dict else ""
    if not text or not answers(query, text):
        return None
    return Line(
        path=path,
        at=at,
        size=len(raw),
        uuid=_text(entry, "uuid"),
        kind=str(entry.get("type")),
        speaker=speaker_of(entry),
        timestamp=_text(entry, "timestamp"),
        snippet=snippet(query, text),
    )


def scan(query: Query, files: Sequence[tuple[str, int]]) -> Iterator[Line]:
    """The answers in these files, each from an offset on; files in the order given."""
    needles = needles_of(query)
    candidates = _candidates(needles, files)
    for path, start in files:
        if candidates is None or path in candidates:
            yield from _in_file(query, needles, path, start)


def needles_of(query: Query) -> list[bytes]:
    """Lower-case bytes that are in every line that can answer, those that are likely to be rare first.

    JSON may write a letter that is not ASCII as an escape, so words with one are not looked for here.
    """
    words = {word for phrase in query.phrases for word in phrase if word.isascii()}
    rare_first = sorted(words, key=lambda word: (word.isalpha(), -len(word), word))
    return [word.encode() for word in rare_first]


def _candidates(needles: list[bytes], files: Sequence[tuple[str, int]]) -> set[str] | None:
    """The files that hold every needle, or None if that is found out by reading them."""
    left: set[str] | None = None
    for needle in needles[:_NEEDLES_ASKED]:
        found = _holding(needle, [one for one in files if left is None or one[0] in left])
        if found is None:
            break
        left = found
    return left


def _in_file(query: Query, needles: list[bytes], path: str, start: int) -> Iterator[Line]:
    try:
        with FileIO(path) as file:
            file.seek(start)
            data = file.read()
    except OSError:
        return
    for begin, end in _lines_with(data, needles):
        line = line_of(query, path, start + begin, data[begin:end])
        if line is not None:
            yield line


def _lines_with(data: bytes, needles: list[bytes]) -> Iterator[tuple[int, int]]:
    """Where lines begin and end that hold every needle; every line, if there is none."""
    plain = data.lower() if needles else data
    done = 0
    while done < len(data):
        found = plain.find(needles[0], done) if needles else done
        if found < 0:
            return
        begin = data.rfind(b"\n", 0, found) + 1 if needles else done
        end = data.find(b"\n", found)
        end = len(data) if end < 0 else end
        if all(plain.find(needle, begin, end) >= 0 for needle in needles[1:]):
            yield begin, end
        done = end + 1


def _holding(needle: bytes, files: Sequence[tuple[str, int]]) -> set[str] | None:
    """Which of the files hold the needle; None if that is found out by reading them."""
    program = ripgrep()
    if program is None or not _is_worth_a_program(files):
        return None
    names = [path for path, _ in files]
    found: set[str] = set()
    for n in range(0, len(names), _BATCH):
        done = subprocess.run(
            [
                program,
                "--no-config",
                "-l",
                "-i",
                "-F",
                "-a",
                "-0",
                "--",
                needle,
                *names[n : n + _BATCH],
            ],
            capture_output=True,
            check=False,
        )
        if done.returncode > 1:
            return None  # a file went away meanwhile, or the program is none
        found.update(os.fsdecode(name) for name in done.stdout.split(b"\0"))
    return found


def ripgrep() -> str | None:
    return shutil.which("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))


def _is_worth_a_program(files: Sequence[tuple[str, int]]) -> bool:
    left = _WORTH_A_PROGRAM_BYTES
    for path, start in files:
        with contextlib.suppress(OSError):
            left -= Path(path).stat().st_size - start
            if left <= 0:
                return True
    return False


def _text(entry: Entry, key: str) -> str | None:
    value = entry.get(key)
    return value if type(value) is str else None
