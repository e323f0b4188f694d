"""Render tool results as rows: diffs, todo lists, images, collapsed output. Does no I/O.

The structured data that the transcript keeps with a result is used, no matter which program wrote
the transcript. If the data does not have the structure of the tool's results, it is shown as text.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator
from itertools import accumulate, groupby, pairwise
from typing import Any, TypeAlias, TypeGuard

from clew.agent.tasks.notice import describe_background_start
from clew.core.json_object import Json
from clew.core.markdown.highlighting import find_lexer_for_file
from clew.core.messages.text import (
    IN_BACKGROUND,
    describe_interruption,
    for_person,
    format_count,
)
from clew.fronts.render.agents import describe_totals
from clew.fronts.render.code import Colors
from clew.fronts.render.displays import (
    describe_denial,
    describe_for_user,
    strip_agent_note,
    strip_hint,
)
from clew.fronts.render.folders import Folders
from clew.fronts.render.folding import (
    CUT_ROWS,
    LINE_ROWS,
    Folds,
    Whole,
    cut,
    fold_text,
    lines_of,
)
from clew.fronts.render.markdown import make_markdown
from clew.fronts.render.rows import (
    Line,
    Row,
    Span,
    chop_spans,
    escape_controls,
    fill_row,
    format_row,
    has_background,
    join_lines,
    join_styles,
    strip_row,
    wrap_spans,
)
from clew.fronts.render.theme import Look, Pictures, Theme
from clew.fronts.render.todos import render_todos

# Diffs: the changed lines with numbers, highlighted in their language.


_SIDES = {
    "+": ("added", "added_line", "added_word"),
    "-": ("removed", "removed_line", "removed_word"),
}
# Limits of the search for changed words. Longer lines or blocks are treated as all changed.
PAIRED_LINES = 40
PAIRED_CHARACTERS = 400
# Lines that share less than this part of their words are different lines.
_ALIKE = 0.4
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")

# Parts of a line, as positions in its shown text.
Parts: TypeAlias = list[tuple[int, int]]


def is_patch(value: Any) -> TypeGuard[list[Json]]:
    """Return whether the value is a list of diff hunks.

    Transcripts written by other programs may contain anything.
    """
    return isinstance(value, list) and bool(value) and all(map(_is_hunk, value))


def _is_hunk(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("lines"), list):
        return False
    numbers = (value.get("oldStart"), value.get("newStart"))
    return all(type(n) is int for n in numbers) and all(type(x) is str for x in value["lines"])


def describe_change(patch: list[Json]) -> str:
    """Describe a change by the number of added lines and of removed lines."""
    lines = [line[:1] for hunk in patch for line in hunk["lines"]]
    return f"+{lines.count('+')} -{lines.count('-')}"


def rows_of(patch: list[Json], path: str, theme: Theme, width: int) -> Iterator[Row]:
    """Yield the rows of all hunks, with a separator between hunks."""
    last = max(hunk["newStart"] + len(hunk["lines"]) for hunk in patch)
    digits = len(str(max(last, *(hunk["oldStart"] for hunk in patch))))
    for number, hunk in enumerate(patch):
        if number:
            yield [Span(" " * digits + " ⋮", theme["quiet"])]
        yield from _hunk(hunk, path, theme, width, digits)


def render_created(content: str, path: str, theme: Theme, width: int) -> Iterator[Row]:
    """Yield the rows of a new file, shown as added lines."""
    lines = content.removesuffix("\n").split("\n")
    hunk = {"oldStart": 0, "newStart": 1, "lines": [f"+{line}" for line in lines]}
    return rows_of([hunk], path, theme, width)


def _hunk(hunk: Json, path: str, theme: Theme, width: int, digits: int) -> Iterator[Row]:
    lexer = find_lexer_for_file(path)
    # Each side is highlighted separately, because the lines of one side are not part of the other
    # side's code.
    colors = {"-": Colors(lexer, theme), "+": Colors(lexer, theme)}
    old, new = hunk["oldStart"], hunk["newStart"]
    for line, changed_parts in _with_changes(hunk["lines"]):
        sign, text = line[:1] or " ", line[1:]
        if sign == "\\":
            yield [Span(f"{' ' * digits} {line}", theme["quiet"])]
            continue
        sides = "-+" if sign == " " else sign
        spans = [colors[side].line(text) for side in sides if side in colors][-1:]
        yield from _line(spans[0] if spans else [Span(text)], changed_parts, sign,
                         old if sign == "-" else new, theme, width, digits)  # fmt: skip
        old += sign != "+"
        new += sign != "-"


def _line(
    spans: Row, changed_parts: Parts, sign: str, number: int, theme: Theme, width: int, digits: int
) -> Iterator[Row]:
    part, ground, word = _SIDES.get(sign, ("quiet", "", ""))
    lit = _mark_parts(spans, changed_parts, theme[word]) if changed_parts else spans
    before = [Span(f"{number:>{digits}} ", theme["quiet"]), Span(f"{sign} ", theme[part])]
    for row in chop_spans(lit, width - digits - 3):
        full = [*before, *row]
        if has_background(theme[ground]):
            yield fill_row(full, theme[ground])
        else:
            # Without a background, the color of the text says what was changed.
            yield [span.with_style(join_styles(span.style, theme[ground])) for span in full]
        before = [Span(" " * (digits + 3))]


def _with_changes(lines: list[str]) -> Iterator[tuple[str, Parts]]:
    """Yield the lines of a hunk, each with the parts that differ from its counterpart.

    The first removed line is the counterpart of the first added line, and so on. If the numbers of
    lines differ, or the lines are too long or too different, there are no parts: the lines are then
    treated as entirely changed.
    """
    runs = [list(run) for _, run in groupby(lines, lambda line: line[:1])]
    # The parts of the added lines that follow.
    waiting: list[Parts] = []
    for run, after in zip(runs, [*runs[1:], []], strict=True):
        parts, waiting = waiting or [[] for _ in run], []
        is_replaced = run[0][:1] == "-" and after and after[0][:1] == "+"
        if is_replaced and len(run) == len(after) <= PAIRED_LINES:
            pairs = [_differing(old, new) for old, new in zip(run, after, strict=True)]
            parts, waiting = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        yield from zip(run, parts, strict=True)


def _differing(old: str, new: str) -> tuple[Parts, Parts]:
    """Return the differing parts of two lines of a diff, each given with its sign.

    Return no parts if the lines are too long or have too little in common.
    """
    old, new = (escape_controls(line[1:].expandtabs(4)) for line in (old, new))
    if max(len(old), len(new)) > PAIRED_CHARACTERS:
        return [], []
    sides = _WORDS.findall(old), _WORDS.findall(new)
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, *sides, autojunk=False)
    ends = [[0, *accumulate(map(len, side))] for side in sides]
    parts: tuple[Parts, Parts] = ([], [])
    shared = 0
    for block in matcher.get_matching_blocks():
        same = old[ends[0][block.a] : ends[0][block.a + block.size]]
        shared += len("".join(same.split()))
    if shared < _ALIKE * len("".join(max(old, new, key=len).split())):
        return parts
    for kind, *places in matcher.get_opcodes():
        for side, (first, last) in enumerate((places[:2], places[2:])):
            if kind == "equal" or first == last:
                continue
            begin, end = ends[side][first], ends[side][last]
            before = parts[side].pop() if parts[side] else (begin, begin)
            # The blanks between two changed words belong to the change.
            if (old, new)[side][before[1] : begin].isspace():
                begin = before[0]
            elif before[0] != begin:
                parts[side].append(before)
            parts[side].append((begin, end))
    return parts


def _mark_parts(spans: Row, parts: Parts, style: str) -> Row:
    """Return the spans, with `style` applied to the given parts of their text."""
    marked: Row = []
    at = 0
    for span in spans:
        end = at + len(span.text)
        cuts = {at, end, *(place for part in parts for place in part if at < place < end)}
        for first, last in pairwise(sorted(cuts)):
            piece = span.with_text(span.text[first - at : last - at])
            is_changed = any(begin <= first < stop for begin, stop in parts)
            marked.append(
                piece.with_style(join_styles(piece.style, style)) if is_changed else piece
            )
        at = end
    return marked


# Images, drawn with the terminal's own protocol or named in a line.


ROWS_MOST = 14
# The approximate height of a cell in pixels, twice its width.
CELL_PIXELS = 20
# A larger image would take too long over a slow connection.
PICTURE_MAX_CHARACTERS = 4_000_000
_CHUNK = 4096
# The JPEG segments that start a frame: 0xC0 to 0xCF except for the tables.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}\Z")


def drawn(source: Any, protocol: Pictures, width: int) -> list[Line]:
    """Return the lines that draw an image; empty if the image cannot be drawn."""
    data = source.get("data") if isinstance(source, dict) else None
    if not protocol or not isinstance(data, str) or len(data) > PICTURE_MAX_CHARACTERS:
        return []
    if not _BASE64.match(data) or width < 4:
        return []
    size = size_of(data, protocol)
    if size is None:
        return []
    columns, rows = fitted(*size, width)
    sent = "".join(
        _kitty(data, columns, rows) if protocol == "kitty" else _iterm(data, columns, rows)
    )
    up = f"\x1b[{rows - 1}A" if rows > 1 else ""
    return [""] * (rows - 1) + [f"\x1b7{up}{sent}\x1b8"]


def size_of(data: str, protocol: Pictures) -> tuple[int, int] | None:
    """Return the size in pixels of an image, or None if the protocol does not support its format.

    Both protocols support PNG; iTerm2 also supports JPEG and GIF.
    """
    try:
        head = b64decode(data[:32])
        if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) == 24:
            size = int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
        elif protocol == "iterm2" and head.startswith((b"GIF87a", b"GIF89a")) and len(head) > 10:
            size = int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
        elif protocol == "iterm2" and head.startswith(b"\xff\xd8\xff"):
            size = _of_jpeg(b64decode(data))
        else:
            return None
    except NotBase64:
        return None
    return size if all(size) else None


def _of_jpeg(data: bytes) -> tuple[int, int]:
    """Return the width and height of a JPEG image; zeros if the data does not contain them.

    The size is in the frame segment, which follows other segments.
    """
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        kind = data[at + 1]
        if kind in _FRAMES:
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return 0, 0


def fitted(wide: int, high: int, width: int) -> tuple[int, int]:
    """Return the number of columns and rows in which to draw an image.

    An image that is too large is scaled down; its proportions are kept.
    """
    rows = max(1, min(ROWS_MOST, -(-high // CELL_PIXELS)))
    columns = max(1, round(rows * 2 * wide / high))
    if columns > width:
        columns, rows = width, max(1, min(rows, round(width * high / wide / 2)))
    return columns, rows


def _kitty(data: str, columns: int, rows: int) -> Iterator[str]:
    for at in range(0, len(data), _CHUNK):
        has_more = int(at + _CHUNK < len(data))
        keys = f"a=T,f=100,q=2,C=1,c={columns},r={rows}," if at == 0 else ""
        yield f"\x1b_G{keys}m={has_more};{data[at : at + _CHUNK]}\x1b\\"


def _iterm(data: str, columns: int, rows: int) -> Iterator[str]:
    size = len(data) * 3 // 4
    yield f"\x1b]1337;File=inline=1;size={size};width={columns};height={rows}:{data}\x07"


# Tools whose results are for the model: the user sees one line, which can be expanded.
_FOR_MODELS = frozenset({
    "Read", "Grep", "Glob", "LS", "WebFetch", "WebSearch", "ToolSearch", "Skill", "NotebookRead",
})  # fmt: skip
# Tools whose first result line is the task's status; their output is shown elsewhere.
_ABOUT_TASKS = frozenset({"TaskOutput", "TaskStop"})
AGENTS = frozenset({"Agent", "Task"})
# Tools whose changes the pinned todo list shows.
_LISTED = frozenset({"TaskCreate", "TaskUpdate"})
_DISPLAYED_CHARACTERS = 200
# Tools whose titles and errors name files and folders; those of other tools are shown unchanged.
PATH_TOOLS = frozenset({
    "Read", "Edit", "MultiEdit", "Write", "NotebookRead", "NotebookEdit", "Grep", "Glob", "LS",
})  # fmt: skip
# The rows of a new file, and the lines of the output of a failed call.
NEW_FILE_ROWS = 10
FAILED_HEAD, FAILED_TAIL = 2, 3


class ToolResultView:
    """A tool result in the conversation: its content block, and the data that is kept for programs.

    `is_seen` is true if the user has seen the call's effect in the permission prompt.
    """

    def __init__(
        self,
        name: str,
        title: str,
        entry: Json,
        display: str = "",
        *,
        folders: Folders | None = None,
        is_seen: bool = False,
    ) -> None:
        self.name = name
        self.title = title
        block = _block(entry)
        self.is_error = block.get("is_error") is True
        self.is_denied = "toolDenialKind" in entry
        self.parts = _parts(block.get("content"))
        raw = entry.get("toolUseResult")
        self.raw: Json = raw if isinstance(raw, dict) else {}
        texts = [_words(part) for part in self.parts if _words(part)]
        if name in AGENTS:
            texts = strip_agent_note(texts)
        text = "\n".join(texts)
        self.text = strip_hint(_plain(text), raw) if self.is_error else text
        self.display = display
        self.is_seen = is_seen
        if folders is not None and name in PATH_TOOLS:
            self.display = folders.shorten(display)
            self.text = folders.shorten(self.text) if self.is_error else text


def _block(entry: Json) -> Json:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    parts = content if isinstance(content, list) else []
    for part in parts:
        if isinstance(part, dict) and part.get("type") == "tool_result":
            return part
    return {}


def _parts(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [p for p in content if isinstance(p, dict)] if isinstance(content, list) else []


def _words(part: Json) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else ""


def render_result(answer: ToolResultView, look: Look, folds: Folds) -> list[Line]:
    """Return the lines of a result, which are shown below its call."""
    output = [format_row(strip_row(row)) for row in _rows(answer, look, folds)]
    for part in answer.parts:
        if part.get("type") == "image":
            output += _picture(part.get("source"), look)
    return output


def _picture(source: Any, look: Look) -> list[Line]:
    rows = drawn(source, look.abilities.pictures, look.width)
    media = source.get("media_type") if isinstance(source, dict) else None
    words = f"[image: {join_lines(media) if isinstance(media, str) else 'unknown type'}]"
    return rows or [format_row([Span(words, look.theme["quiet"])])]


def _rows(answer: ToolResultView, look: Look, folds: Folds) -> Iterator[Row]:
    if answer.is_error:
        return _failed(answer, look, folds)
    todos = _todos(answer)
    if todos is not None:
        return render_todos(todos, look.width, look.theme) if look.says_who else iter(())
    if answer.name in _LISTED and not look.says_who:
        return iter(())
    for shape in (_change, _new_file, _plan, _agent, _background):
        rows = shape(answer, look, folds)
        if rows is not None:
            return rows
    if answer.name in _FOR_MODELS or answer.name in _ABOUT_TASKS:
        return _about(answer, look, folds)
    words = describe_for_user(answer.name, answer.raw)
    if words:
        return fold_text(words, answer.title, look, folds)
    output = answer.raw.get("stdout")
    text = output if isinstance(output, str) and output else answer.text
    return fold_text(text or answer.display or "done", answer.title, look, folds)


def _failed(answer: ToolResultView, look: Look, folds: Folds) -> Iterator[Row]:
    """Yield the rows of a failed call: the error, then the output."""
    text = answer.text or _plain(answer.display) or "failed"
    if answer.is_denied:
        text = describe_denial(for_person(text))
    text = describe_interruption(text) or text
    first, _, rest = text.partition("\n")
    short = len(first) <= look.width * LINE_ROWS
    rows = (
        list(wrap_spans([Span(escape_controls(first), look.theme["error"])], look.width))
        if short
        else []
    )
    if 0 < len(rows) <= LINE_ROWS:
        yield from rows
    else:
        yield from fold_text(first, answer.title, look, folds, part="error")
    ends = (FAILED_HEAD, FAILED_TAIL)
    yield from fold_text(rest, answer.title, look, folds, ends=ends)


def _plain(text: str) -> str:
    """Return an error message without the tags that mark it as an error for the model."""
    return text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>").strip("\n")


def describe_result(answer: ToolResultView) -> str:
    """Describe, in a few words, a result that is meant for the model."""
    count = len(lines_of(answer.text))
    first = answer.text.partition("\n")[0]
    text = first if answer.name in _ABOUT_TASKS and first.startswith("Task ") else answer.display
    return join_lines(text[:_DISPLAYED_CHARACTERS]) or format_count(count, "line")


def _about(answer: ToolResultView, look: Look, folds: Folds) -> Iterator[Row]:
    words = describe_result(answer)

    def whole(width: int) -> Iterator[Row]:
        for line in lines_of(answer.text):
            yield from wrap_spans([Span(escape_controls(line), look.theme["quiet"])], width)

    is_whole = look.is_verbose and answer.text != words
    name = folds.keep(answer.title, whole) if answer.text and not is_whole else ""
    yield from wrap_spans([Span(f"{words}{name}", look.theme["quiet"])], look.width)
    if is_whole:
        yield from whole(look.width)


def _change(answer: ToolResultView, look: Look, folds: Folds) -> Iterator[Row] | None:
    patch = answer.raw.get("structuredPatch")
    if not is_patch(patch):
        return None

    def whole(width: int) -> Iterator[Row]:
        return rows_of(patch, _path(answer), look.theme, width)

    return _counted(describe_change(patch), whole, answer, look, folds)


def _new_file(answer: ToolResultView, look: Look, folds: Folds) -> Iterator[Row] | None:
    content = answer.raw.get("content")
    if answer.raw.get("type") != "create" or not isinstance(content, str):
        return None

    def whole(width: int) -> Iterator[Row]:
        return render_created(content, _path(answer), look.theme, width)

    words = f"new, +{len(lines_of(content))}"
    return _counted(words, whole, answer, look, folds, NEW_FILE_ROWS)


def _counted(
    words: str, whole: Whole, answer: ToolResultView, look: Look, folds: Folds, most: int = CUT_ROWS
) -> Iterator[Row]:
    """Yield the rows that describe a change: its size, then the change itself.

    If the user has just approved the change, the change itself is collapsed.
    """
    more = folds.keep(answer.title, whole) if answer.is_seen else ""
    yield from wrap_spans([Span(f"{words}{more}", look.theme["quiet"])], look.width)
    if not answer.is_seen:
        yield from cut(whole(look.width), answer.title, whole, look, folds, most)


def _path(answer: ToolResultView) -> str:
    path = answer.raw.get("filePath", answer.raw.get("notebook_path"))
    return path if isinstance(path, str) else ""


def _todos(answer: ToolResultView) -> list[Json] | None:
    todos = answer.raw.get("newTodos", answer.raw.get("tasks"))
    if not isinstance(todos, list) or not all(isinstance(todo, dict) for todo in todos):
        return None
    return todos


def _plan(answer: ToolResultView, look: Look, folds: Folds) -> Iterator[Row] | None:
    plan = answer.raw.get("plan")
    if not isinstance(plan, str) or not plan:
        return None
    return _markdown(plan, answer, look, folds)


def _agent(answer: ToolResultView, look: Look, folds: Folds) -> Iterator[Row] | None:
    if answer.name not in AGENTS or not answer.text:
        return None
    if answer.raw.get("status") == "async_launched":
        words = IN_BACKGROUND.format(answer.raw.get("agentId"))
        return wrap_spans([Span(join_lines(words), look.theme["quiet"])], look.width)
    if not describe_totals(answer.raw):
        return _markdown(answer.text, answer, look, folds)
    if not look.says_who:
        return iter(())  # the title contains them
    report = describe_report(answer, look, folds)
    return wrap_spans([Span(report, look.theme["quiet"])], look.width)


def describe_report(answer: ToolResultView, look: Look, folds: Folds) -> str:
    """Describe a finished subagent's work and collapse its report; empty for other results."""
    work = describe_totals(answer.raw) if answer.name in AGENTS and not answer.is_error else ""
    return f"{work}{folds.keep(answer.title, _painted(answer.text, look))}" if work else ""


def _background(answer: ToolResultView, look: Look, folds: Folds) -> Iterator[Row] | None:
    """Return the rows for a command started in the background, or None for any other result."""
    words = describe_background_start(answer.text)
    return fold_text(words, answer.title, look, folds) if words else None


def _markdown(text: str, answer: ToolResultView, look: Look, folds: Folds) -> Iterator[Row]:
    whole = _painted(text, look)
    return cut(whole(look.width), answer.title, whole, look, folds)


def _painted(text: str, look: Look) -> Whole:
    def whole(width: int) -> Iterator[Row]:
        markdown = make_markdown(look, width)
        yield from markdown.feed(text)
        yield from markdown.finish()

    return whole
