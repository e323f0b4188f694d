"""Fold successive finished reads and searches into one line, such as `Read 3 files`.

A group ends with the next output of another kind. A call that failed is counted, and its error is
shown below the line. Does no I/O.
"""

from collections.abc import Iterator, Sequence

from clew.core.json_object import Json, object_of
from clew.core.messages.text import format_count
from clew.fronts.render.folding import Folds, lines_of
from clew.fronts.render.results import ToolResultView, describe_result, render_result
from clew.fronts.render.rows import (
    GUTTER,
    Line,
    Row,
    Span,
    clip_spans,
    escape_controls,
    format_row,
    mark_rows,
    wrap_spans,
)
from clew.fronts.render.theme import Look

# The verb for each tool, and nouns for one and several objects. Calls of the first five are folded.
_DONE = {
    "Read": ("read", "file", "files"),
    "NotebookRead": ("read", "file", "files"),
    "Grep": ("searched", "pattern", "patterns"),
    "Glob": ("searched", "pattern", "patterns"),
    "LS": ("listed", "folder", "folders"),
}
_OTHERS = _DONE | {
    **dict.fromkeys(("Edit", "MultiEdit", "NotebookEdit"), ("changed", "file", "files")),
    "Write": ("wrote", "file", "files"),
    **dict.fromkeys(("Bash", "PowerShell"), ("ran", "command", "commands")),
    "WebFetch": ("fetched", "page", "pages"),
    "WebSearch": ("searched the web", "time", "times"),
    "Agent": ("ran", "agent", "agents"),
}
_CALLED = ("called", "other tool", "other tools")
# The input fields that name a call's object.
_SUBJECTS = ("file_path", "notebook_path", "path", "pattern", "command", "url")


def can_fold(answer: ToolResultView) -> bool:
    """Return whether a call may be in a group: it only read or searched, and shows no image."""
    is_image = any(part.get("type") == "image" for part in answer.parts)
    return answer.name in _DONE and not answer.is_denied and not is_image


class CallGroup:
    """The calls of a group, oldest first."""

    def __init__(self) -> None:
        self._answers: list[ToolResultView] = []

    def __bool__(self) -> bool:
        return bool(self._answers)

    def add(self, answer: ToolResultView) -> None:
        self._answers.append(answer)

    def take(self, look: Look, folds: Folds) -> list[Line]:
        """Return the final lines of the group, and begin the next one."""
        answers, self._answers = self._answers, []
        if not answers:
            return []
        failed = [answer for answer in answers if answer.is_error]
        title, more = _title(answers), ""
        if len(answers) == 1:
            more = "" if failed else f" · {describe_result(answers[0])}"
        if len(failed) < len(answers):
            more += folds.keep(title, lambda width: _whole(answers, look, width))
        lines = [format_row(row) for row in _head(answers, title, more, look)]
        inner = look.narrowed(len(GUTTER))
        for answer in failed:
            name = answer.title if len(answers) > 1 else ""
            if name:
                span = Span(name, look.theme["quiet"])
                lines += [GUTTER + format_row(row) for row in wrap_spans([span], inner.width)]
            lines += [GUTTER + line if line else "" for line in render_result(answer, inner, folds)]
        return lines

    def live(self, look: Look) -> list[Line]:
        """Return the row that represents the group until the group ends."""
        if not self._answers:
            return []
        row = next(iter(_head(self._answers, _title(self._answers), "", look)))
        return [format_row(clip_spans(row, look.width))]


def _head(answers: list[ToolResultView], title: str, more: str, look: Look) -> Iterator[Row]:
    is_error = any(answer.is_error for answer in answers)
    mark = Span("✗ ", look.theme["error"]) if is_error else Span("● ", look.theme["done"])
    words = [Span(title, look.theme["tool"]), Span(more, look.theme["quiet"])]
    return mark_rows(mark, wrap_spans(words, look.width - len(GUTTER)))


def _title(answers: list[ToolResultView]) -> str:
    """Return the title of a single call, or a summary of several calls."""
    if len(answers) == 1:
        return answers[0].title
    # The subjects by verb; a file that was read twice is one file.
    subjects: dict[tuple[str, str, str], set[str]] = {}
    for answer in answers:
        if not answer.is_error:
            subjects.setdefault(_DONE[answer.name], set()).add(_subject(answer))
    return _counted(subjects, sum(answer.is_error for answer in answers))


def summarize_calls(calls: Sequence[tuple[Json, bool]]) -> str:
    """Return a short summary of calls. Each call is a block and whether it failed."""
    subjects: dict[tuple[str, str, str], set[str]] = {}
    for block, is_error in calls:
        if not is_error:
            arguments = object_of(block.get("input"))
            subject_names = (str(arguments[field]) for field in _SUBJECTS if field in arguments)
            done = _OTHERS.get(str(block.get("name")), _CALLED)
            subjects.setdefault(done, set()).add(next(subject_names, str(block.get("id"))))
    return _counted(subjects, sum(is_error for _, is_error in calls))


def _counted(subjects: dict[tuple[str, str, str], set[str]], failed: int) -> str:
    words = [
        f"{verb} {format_count(len(names), one, several)}"
        for (verb, one, several), names in subjects.items()
    ]
    if failed:
        alone = format_count(failed, "call", "calls")
        words.append(f"{failed} failed" if words else f"{alone} failed")
    text = ", ".join(words)
    return text[0].upper() + text[1:]


def _subject(answer: ToolResultView) -> str:
    """Return the title of a call without the line numbers that the call read."""
    title, colon, rest = answer.title.rpartition(":")
    return title if colon and rest.replace("-", "").isdigit() else answer.title


def _whole(answers: list[ToolResultView], look: Look, width: int) -> Iterator[Row]:
    for number, answer in enumerate(answers):
        if len(answers) > 1:
            if number:
                yield []
            yield from wrap_spans([Span(answer.title, look.theme["tool"])], width)
        for line in lines_of(answer.text):
            yield from wrap_spans([Span(escape_controls(line), look.theme["quiet"])], width)
