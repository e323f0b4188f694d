"""What a call would do, in whole, for the person who is asked: the command, the change, every field.

Must never shorten: a person answers for all of it. A change is shown as the file would change, where
the file is there and the change fits; else as its fields say it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from clew.config.regular import content
from clew.tools.patch import patch_of_texts
from clew.tui.render import diff
from clew.tui.render.rows import Row, Span, chopped
from clew.tui.render.safe import one_line, visible
from clew.tui.render.theme import Theme

Json: TypeAlias = dict[str, Any]
# A larger file is not read for a question; its change is shown by its fields.
READ_MAX_BYTES = 4 << 20
CHANGE = ("old_string", "new_string", "replace_all", "content", "edits")


class Proposed:
    """One call; what it needs of the disk is read once, when the question is asked."""

    def __init__(self, tool: str, given: Json, cwd: str) -> None:
        self._given = given
        self._path = str(given.get("file_path") or given.get("path") or "")
        self._patch: list[Json] | None = None
        self._content: str | None = None
        if tool in ("Edit", "MultiEdit", "Write") and self._path:
            self._read(tool, cwd)

    def _read(self, tool: str, cwd: str) -> None:
        path = Path(cwd, self._path)
        try:
            is_small = path.stat().st_size <= READ_MAX_BYTES
            before = content(path).decode("utf-8") if is_small else None
        except FileNotFoundError:
            before = ""
        except (OSError, UnicodeDecodeError):
            return
        after = None if before is None else changed(tool, before, self._given)
        if before and after is not None:
            self._patch = patch_of_texts(before, after) or None
        elif tool == "Write":
            self._content = after

    def rows(self, theme: Theme, width: int) -> Iterator[Row]:
        shown: tuple[str, ...] = ()
        if self._patch is not None and diff.is_patch(self._patch):
            yield from self._head(theme, width, diff.counted(self._patch))
            yield from diff.rows_of(self._patch, self._path, theme, width)
            shown = (*CHANGE, "file_path", "path")
        elif self._content is not None:
            yield from self._head(theme, width, "a new file")
            yield from diff.created(self._content, self._path, theme, width)
            shown = (*CHANGE, "file_path", "path")
        elif isinstance(command := self._given.get("command"), str):
            yield from marked("$ ", command, theme, width)
            shown = ("command",)
        for name, value in self._given.items():
            if name not in shown:
                yield from field(name, value, theme, width)

    def _head(self, theme: Theme, width: int, words: str) -> Iterator[Row]:
        head = [Span(one_line(self._path), theme["person"]), Span(f"  {words}", theme["quiet"])]
        return chopped(head, width)


def changed(tool: str, before: str, given: Json) -> str | None:
    """The text of the file behind the call; None where the call does not fit it."""
    if tool == "Write":
        return str(given.get("content", ""))
    edits = given.get("edits") if tool == "MultiEdit" else [given]
    for edit in edits if isinstance(edits, list) else ():
        old, new = edit.get("old_string"), edit.get("new_string")
        if not isinstance(old, str) or not isinstance(new, str) or not old or old not in before:
            return None
        before = before.replace(old, new, -1 if edit.get("replace_all") else 1)
    return before


def marked(mark: str, text: str, theme: Theme, width: int) -> Iterator[Row]:
    """Lines behind a mark, each where it stood."""
    for number, one in enumerate(visible(text).split("\n")):
        begin = Span(f"  {mark}" if number == 0 else "    ", theme["quiet"])
        for row in chopped([Span(one)], width - 4):
            yield [begin, *row]
            begin = Span("    ")


def field(name: str, value: Any, theme: Theme, width: int) -> Iterator[Row]:
    """A field of the input; one of several lines stands below its name."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = visible(text)
    if "\n" not in text:
        yield from chopped([Span(f"  {one_line(name)}: ", theme["quiet"]), Span(text)], width)
        return
    yield [Span(f"  {one_line(name)}:", theme["quiet"])]
    yield from marked("  ", text, theme, width)
