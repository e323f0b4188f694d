"""Show questions as dialogs on the screen.

A permission prompt shows the effect of the call.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from clew.agent.deps import Question
from clew.agent.tools.patch import diff_texts
from clew.core.json_object import Json
from clew.fronts.dialog import Body, Dialog, DialogAnswer
from clew.fronts.questions import (
    PATHS,
    Questions,
    describe_ide,
    describe_why,
    list_parts,
    show_path,
)
from clew.fronts.render import results
from clew.fronts.render.markdown import Markdown
from clew.fronts.render.rows import (
    Line,
    Row,
    Span,
    chop_spans,
    escape_controls,
    format_row,
    hang_lines,
    join_lines,
)
from clew.fronts.render.theme import Theme
from clew.fronts.terminal.choosing import Chooser
from clew.fronts.terminal.form import Form
from clew.fronts.terminal.stage import Stage
from clew.permissions.decision import Finding
from clew.system.files import read_content

# The full effect of a call, for a permission prompt: the command, the change, every field.


# Larger files are not read for a prompt; their change is shown by its fields.
READ_MAX_BYTES = 4 << 20
CHANGE = ("old_string", "new_string", "replace_all", "content", "edits")


class Proposed:
    """A proposed tool call, drawn for its permission prompt.

    The file that the call changes is read once, when the question is asked.
    """

    def __init__(self, tool: str, arguments: Json, cwd: str) -> None:
        self._given = arguments
        self._cwd = cwd
        self._path = str(arguments.get("file_path") or arguments.get("path") or "")
        self._patch: list[Json] | None = None
        self._content: str | None = None
        if tool in ("Edit", "MultiEdit", "Write") and self._path:
            self._read(tool, cwd)

    def _read(self, tool: str, cwd: str) -> None:
        path = Path(cwd, self._path)
        try:
            is_small = path.stat().st_size <= READ_MAX_BYTES
            before = read_content(path).decode("utf-8") if is_small else None
        except FileNotFoundError:
            before = ""
        except (OSError, UnicodeDecodeError):
            return
        after = None if before is None else changed(tool, before, self._given)
        if before and after is not None:
            self._patch = diff_texts(before, after) or None
        elif tool == "Write":
            self._content = after

    def rows(self, theme: Theme, width: int) -> Iterator[Row]:
        shown_names: tuple[str, ...] = ()
        if self._patch is not None and results.is_patch(self._patch):
            yield [Span(f"  {results.describe_change(self._patch)}", theme["quiet"])]
            yield from results.rows_of(self._patch, self._path, theme, width)
            shown_names = (*CHANGE, "file_path", "path")
        elif self._content is not None:
            yield from results.render_created(self._content, self._path, theme, width)
            shown_names = (*CHANGE, "file_path", "path")
        elif isinstance(command := self._given.get("command"), str):
            yield from marked("$ ", command, theme, width)
            shown_names = ("command",)
            # The model's description of its command is a comment.
            if isinstance(about := self._given.get("description"), str):
                yield from marked("# ", about, theme, width)
                shown_names = ("command", "description")
        for name, value in self._given.items():
            if name not in shown_names:
                is_path = name in PATHS and isinstance(value, str)
                shown = show_path(value, self._cwd) if is_path else value
                yield from field(name, shown, theme, width)


def changed(tool: str, before: str, arguments: Json) -> str | None:
    """Return the file's content after the call, or None if the edits do not match the file."""
    if tool == "Write":
        return str(arguments.get("content", ""))
    edits = arguments.get("edits") if tool == "MultiEdit" else [arguments]
    for edit in edits if isinstance(edits, list) else ():
        old, new = edit.get("old_string"), edit.get("new_string")
        if not isinstance(old, str) or not isinstance(new, str) or not old or old not in before:
            return None
        before = before.replace(old, new, -1 if edit.get("replace_all") else 1)
    return before


def marked(mark: str, text: str, theme: Theme, width: int) -> Iterator[Row]:
    """Yield the rows of a text: a mark before the first line, the others indented to match."""
    for number, line in enumerate(escape_controls(text).split("\n")):
        begin = Span(f"  {mark}" if number == 0 else "    ", theme["quiet"])
        for row in chop_spans([Span(line)], width - 4):
            yield [begin, *row]
            begin = Span("    ")


def field(name: str, value: Any, theme: Theme, width: int) -> Iterator[Row]:
    """Yield the rows of one input field; a value of several lines is shown below its name."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = escape_controls(text)
    if "\n" not in text:
        yield from chop_spans([Span(f"  {join_lines(name)}: ", theme["quiet"]), Span(text)], width)
        return
    yield [Span(f"  {join_lines(name)}:", theme["quiet"])]
    yield from marked("  ", text, theme, width)


PROSE_COLUMNS = 100
MARKS = {"allow": "    ok  ", "ask": "    ?   ", "review": "    ?   ", "deny": "    no  "}


class Dialogs(Questions):
    """Shows questions as dialogs on the stage."""

    def __init__(self, stage: Stage, tell: Callable[[str], object]) -> None:
        super().__init__(tell)
        self._stage = stage

    async def choose(self, dialog: Dialog) -> DialogAnswer | None:
        return await self._stage.ask(self._chooser(dialog))

    async def choose_all(self, dialogs: Sequence[Dialog]) -> list[DialogAnswer] | None:
        if len(dialogs) == 1:
            return await super().choose_all(dialogs)
        form = Form(dialogs, [self._chooser(dialog) for dialog in dialogs])
        await self._stage.ask(form)
        return form.answers

    def _chooser(self, dialog: Dialog) -> Chooser:
        def text(width: int) -> Sequence[Line]:
            return self._lines(escape_controls(dialog.text), width, "") if dialog.text else ()

        return Chooser(
            dialog.title,
            dialog.choices,
            body=dialog.body or text,
            several=dialog.several,
            at=dialog.at,
            escape=dialog.escape,
        )

    def draw_plan(self, plan: str) -> Body:
        def body(width: int) -> Sequence[Line]:
            markdown = Markdown(self._stage.theme, min(width, PROSE_COLUMNS) - 2)
            rows = [*markdown.feed(plan), *markdown.finish()]
            return [format_row([Span("  "), *row]) for row in rows]

        return body

    def draw(self, question: Question) -> Body:
        """Draw the entire call, the reason for asking, and the parts of a compound command."""
        if self._stage.transcript is not None:
            self._stage.transcript.saw(str(question.block.get("id", "")))
        proposed = Proposed(question.block["name"], question.block["input"], self.cwd())

        def body(width: int) -> Sequence[Line]:
            lines = [format_row(row) for row in proposed.rows(self._stage.theme, width)]
            parts = {part(finding): PARTS[finding.verdict] for finding in list_parts(question)}
            why = escape_controls(describe_why(question))
            # A reason that one of the parts gives is not repeated.
            is_told = any(words.endswith(f" {why}") for words in parts)
            hint = "  Parts marked ? need approval:" if is_told else f"  Needs approval: {why}"
            lines += self._lines(hint, width, "quiet")
            for words, style in parts.items():
                lines += self._lines(words, width, style)
            if ide := describe_ide(question).lstrip("\n"):
                lines += self._lines(escape_controls(ide), width, "quiet")
            return lines

        return body

    def _lines(self, text: str, width: int, style: str) -> list[Line]:
        return [format_row(row) for row in hang_lines(text, self._stage.theme[style], width)]


PARTS = {"ask": "notice", "review": "notice", "deny": "error", "allow": "done"}


def part(finding: Finding) -> str:
    """Describe one part of a compound command: its verdict and the reason."""
    subject = f"{finding.subject}: " if finding.subject else ""
    return f"{MARKS[finding.verdict]}{escape_controls(subject)}{escape_controls(finding.reason)}"
