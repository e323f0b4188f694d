"""What became of a call, as rows: a change as its lines, a list as its boxes, output folded. Pure.

Goes by what the log keeps beside a result, whoever wrote it; what has another shape than its tool
would give it is shown as text.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

from clew.messages.counts import count_of
from clew.messages.wording import for_person
from clew.tasks.notice import runs_for_person
from clew.tui.render import diff
from clew.tui.render.folding import LINE_ROWS, Folds, cut, folded, lines_of
from clew.tui.render.look import Look
from clew.tui.render.markdown import Markdown
from clew.tui.render.pictures import drawn
from clew.tui.render.rows import Line, Row, Span, bare, line, wrapped
from clew.tui.render.safe import one_line, visible

Json: TypeAlias = dict[str, Any]

# Their results are for the model: people see a line about them and may ask for the rest.
_FOR_MODELS = frozenset({
    "Read", "Grep", "Glob", "LS", "WebFetch", "WebSearch", "ToolSearch", "Skill", "NotebookRead",
})  # fmt: skip
# Their first line says how the task stands; people see by themselves what it prints.
_ABOUT_TASKS = frozenset({"TaskOutput", "TaskStop"})
_DISPLAYED_CHARACTERS = 200
_BOXES = {"completed": ("☑", "quiet"), "in_progress": ("▸", "running")}


class Answer:
    """A call's result as it lies in the conversation: its block, and what is kept for programs."""

    def __init__(self, name: str, title: str, entry: Json, display: str = "") -> None:
        self.name = name
        self.title = title
        block = _block(entry)
        self.is_error = block.get("is_error") is True
        self.is_denied = "toolDenialKind" in entry
        self.parts = _parts(block.get("content"))
        raw = entry.get("toolUseResult")
        self.raw: Json = raw if isinstance(raw, dict) else {}
        self.text = "\n".join(_words(part) for part in self.parts if _words(part))
        self.display = display


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


def lines(answer: Answer, look: Look, folds: Folds) -> list[Line]:
    """The result below its call."""
    shown = [line(bare(row)) for row in _rows(answer, look, folds)]
    for part in answer.parts:
        if part.get("type") == "image":
            shown += _picture(part.get("source"), look)
    return shown


def _picture(source: Any, look: Look) -> list[Line]:
    found = drawn(source, look.abilities.pictures, look.width)
    media = source.get("media_type") if isinstance(source, dict) else None
    words = f"[picture: {one_line(media) if isinstance(media, str) else 'of an unknown kind'}]"
    return found or [line([Span(words, look.theme["quiet"])])]


def _rows(answer: Answer, look: Look, folds: Folds) -> Iterator[Row]:
    if answer.is_error:
        return _failed(answer, look, folds)
    todos = _todos(answer)
    if todos is not None:
        return todo_rows(todos, look)
    for shape in (_change, _new_file, _plan, _agent, _background):
        rows = shape(answer, look, folds)
        if rows is not None:
            return rows
    if answer.name in _FOR_MODELS or answer.name in _ABOUT_TASKS:
        return _about(answer, look, folds)
    output = answer.raw.get("stdout")
    text = output if isinstance(output, str) and output else answer.text
    return folded(text or answer.display or "done", answer.title, look, folds)


def _failed(answer: Answer, look: Look, folds: Folds) -> Iterator[Row]:
    """What went wrong, and then what was printed."""
    text = _plain(answer.text or answer.display or "failed")
    first, _, rest = (for_person(text) if answer.is_denied else text).partition("\n")
    short = len(first) <= look.width * LINE_ROWS
    rows = list(wrapped([Span(visible(first), look.theme["error"])], look.width)) if short else []
    if 0 < len(rows) <= LINE_ROWS:
        yield from rows
    else:
        yield from folded(first, answer.title, look, folds, part="error")
    yield from folded(rest, answer.title, look, folds)


def _plain(text: str) -> str:
    """An error without the tag that tells the model it is one."""
    return text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>").strip("\n")


def _about(answer: Answer, look: Look, folds: Folds) -> Iterator[Row]:
    count = len(lines_of(answer.text))
    first = answer.text.partition("\n")[0]
    said = first if answer.name in _ABOUT_TASKS and first.startswith("Task ") else answer.display
    words = one_line(said[:_DISPLAYED_CHARACTERS]) or count_of(count, "line")

    def whole(width: int) -> Iterator[Row]:
        for each in lines_of(answer.text):
            yield from wrapped([Span(visible(each), look.theme["quiet"])], width)

    name = folds.keep(answer.title, whole) if answer.text else ""
    yield from wrapped([Span(f"{words}{name}", look.theme["quiet"])], look.width)


def _change(answer: Answer, look: Look, folds: Folds) -> Iterator[Row] | None:
    patch = answer.raw.get("structuredPatch")
    if not diff.is_patch(patch):
        return None

    def whole(width: int) -> Iterator[Row]:
        return diff.rows_of(patch, _path(answer), look.theme, width)

    return _counted(
        diff.counted(patch), cut(whole(look.width), answer.title, whole, look, folds), look
    )


def _new_file(answer: Answer, look: Look, folds: Folds) -> Iterator[Row] | None:
    content = answer.raw.get("content")
    if answer.raw.get("type") != "create" or not isinstance(content, str):
        return None

    def whole(width: int) -> Iterator[Row]:
        return diff.created(content, _path(answer), look.theme, width)

    words = f"new, +{len(lines_of(content))}"
    return _counted(words, cut(whole(look.width), answer.title, whole, look, folds), look)


def _counted(words: str, rows: Iterator[Row], look: Look) -> Iterator[Row]:
    yield [Span(words, look.theme["quiet"])]
    yield from rows


def _path(answer: Answer) -> str:
    path = answer.raw.get("filePath", answer.raw.get("notebook_path"))
    return path if isinstance(path, str) else ""


def _todos(answer: Answer) -> list[Json] | None:
    todos = answer.raw.get("newTodos", answer.raw.get("tasks"))
    if not isinstance(todos, list) or not all(isinstance(todo, dict) for todo in todos):
        return None
    return todos


def todo_rows(todos: list[Json], look: Look) -> Iterator[Row]:
    """A list of what is to do: a box each, and what is being done in the words for that."""
    for todo in todos:
        box, part = _BOXES.get(str(todo.get("status")), ("☐", ""))
        now = todo.get("activeForm") if todo.get("status") == "in_progress" else None
        words = one_line(str(now or todo.get("content", todo.get("subject", ""))))
        style = look.theme[part]
        for number, row in enumerate(wrapped([Span(words, style)], look.width - 2)):
            yield [Span(f"{box} " if number == 0 else "  ", style), *row]


def _plan(answer: Answer, look: Look, folds: Folds) -> Iterator[Row] | None:
    plan = answer.raw.get("plan")
    if not isinstance(plan, str) or not plan:
        return None
    return _markdown(plan, answer, look, folds)


def _agent(answer: Answer, look: Look, folds: Folds) -> Iterator[Row] | None:
    if answer.name not in ("Agent", "Task") or not answer.text:
        return None
    if answer.raw.get("status") == "async_launched":
        words = f"works in the background as {answer.raw.get('agentId')}; you are told when it has ended"
        return wrapped([Span(one_line(words), look.theme["quiet"])], look.width)
    return _markdown(answer.text, answer, look, folds)


def _background(answer: Answer, look: Look, folds: Folds) -> Iterator[Row] | None:
    """A command that goes on beside the conversation, and what it printed until it was left."""
    words = runs_for_person(answer.text)
    return folded(words, answer.title, look, folds) if words else None


def _markdown(text: str, answer: Answer, look: Look, folds: Folds) -> Iterator[Row]:
    def whole(width: int) -> Iterator[Row]:
        markdown = Markdown(look.theme, width, links=look.abilities.links)
        yield from markdown.feed(text)
        yield from markdown.finish()

    return cut(whole(look.width), answer.title, whole, look, folds)
