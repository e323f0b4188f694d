"""The prompt history of all projects: one JSON object per line in `history.jsonl`.

Other tools share this file, so lines are only appended, and unreadable lines are skipped. Long
pasted text is saved; images are not.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.core.input import Pasted
from clew.fronts.terminal.prompt import SubmittedText

# Enough for thousands of entries, and read in a few milliseconds.
READ_BYTES = 2 << 20
MOST = 2_000
# A line is written in one call or not at all; longer text would make the file slow for all readers.
KEPT_CHARACTERS = 100_000
IMAGE = re.compile(r" ?\[Image #\d+\]")


class PromptHistory:
    """The prompts of one project, newest first and without duplicates.

    The file is read when the prompts are first needed.
    """

    def __init__(self, path: Path, project: str) -> None:
        self._path = path
        self._project = project
        self._session_id = ""
        # Prompts that were sent before the session was open.
        self._early: list[tuple[SubmittedText, int]] = []
        # Whether sent prompts are saved for later runs.
        self.is_kept = True
        self._entries: list[SubmittedText] | None = None
        # The position in the history, and the draft that was in the prompt.
        self._at = 0
        self._draft = SubmittedText(text="")

    def add(self, entry: SubmittedText, at_ms: int) -> None:
        """Save a prompt that was sent; a disk error does not affect the session."""
        self._at = 0
        if not entry.text.strip():
            return
        # A prompt that is not saved, or not yet, exists in this list only, so the list is read first.
        if self._entries is not None or not (self.is_kept and self._session_id):
            self._entries = [
                entry,
                *(
                    earlier_entry
                    for earlier_entry in self.entries
                    if earlier_entry.text != entry.text
                ),
            ]
        if not self.is_kept:
            return
        if self._session_id:
            self._write(entry, at_ms)
        else:
            self._early.append((entry, at_ms))

    def begin(self, session_id: str) -> None:
        """Save later prompts as those of this session, and the prompts that waited for one."""
        self._session_id = session_id
        early, self._early = self._early, []
        for entry, at_ms in early:
            self._write(entry, at_ms)

    def _write(self, entry: SubmittedText, at_ms: int) -> None:
        line = json.dumps(self._spelled(entry, at_ms), ensure_ascii=False) + "\n"
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            file = os.open(self._path, flags, 0o600)
            try:
                os.write(file, line.encode("utf-8", "surrogatepass"))
            finally:
                os.close(file)

    def _spelled(self, entry: SubmittedText, at_ms: int) -> dict[str, Any]:
        texts = [paste for paste in entry.meant if paste.media_type is None]
        records = {
            str(paste.number): {
                "id": paste.number,
                "type": "text",
                "content": paste.data.decode("utf-8", "replace")[:KEPT_CHARACTERS],
            }
            for paste in texts
        }
        return {
            "display": entry.text,
            "pastedContents": records,
            "timestamp": at_ms,
            "project": self._project,
            "sessionId": self._session_id,
        }

    # -- moving through the history

    @property
    def is_recalling(self) -> bool:
        return self._at > 0

    @property
    def recalled(self) -> str:
        """The text of the recalled prompt, empty if there is none."""
        return self.entries[self._at - 1].text if self._at else ""

    def older(self, now: SubmittedText) -> SubmittedText | None:
        if self._at == 0:
            self._draft = now
        if self._at >= len(self.entries):
            return None
        self._at += 1
        return self.entries[self._at - 1]

    def newer(self) -> SubmittedText | None:
        if self._at == 0:
            return None
        self._at -= 1
        return self.entries[self._at - 1] if self._at else self._draft

    def rest(self) -> None:
        """Treat the recalled prompt as a new draft, because the user is editing it."""
        self._at = 0

    # -- reading

    @property
    def entries(self) -> list[SubmittedText]:
        if self._entries is None:
            self._entries = list(self._read())
        return self._entries

    def _read(self) -> Iterator[SubmittedText]:
        seen: set[str] = set()
        for line in reversed(_last_lines(self._path)):
            entry = entry_of(line, self._project)
            if entry is not None and entry.text not in seen:
                seen.add(entry.text)
                yield entry
            if len(seen) >= MOST:
                return


def _last_lines(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = max(0, size - READ_BYTES)
            file.seek(begin)
            lines = file.read().split(b"\n")
    except OSError:
        return []
    return lines[1:] if begin else lines


def entry_of(line: bytes, project: str) -> SubmittedText | None:
    """Parse a line of the history file; return its prompt, or None if it is another project's.

    Return None for an invalid line as well.
    """
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or record.get("project") != project:
        return None
    text, pasted = record.get("display"), record.get("pastedContents")
    if not isinstance(text, str) or not text.strip():
        return None
    values = pasted.values() if isinstance(pasted, dict) else ()
    texts = tuple(paste for value in values if (paste := _pasted(value)) is not None)
    return SubmittedText(text=IMAGE.sub("", text), pasted=texts)


def _pasted(value: Any) -> Pasted | None:
    match value:
        case {"id": int(number), "content": str(text)}:
            return Pasted(number=number, data=text.encode("utf-8", "surrogatepass"))
    return None
