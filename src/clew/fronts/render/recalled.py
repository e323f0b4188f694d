"""Render the end of a resumed session as it looked before. Does no I/O.

The last messages are rendered first, and earlier ones only until there are enough rows.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from clew.agent.tasks.notice import describe_background_start
from clew.core.input import as_typed, lift_pastes
from clew.core.json_object import Json
from clew.core.messages.messages import UserMessage
from clew.core.messages.text import INTERRUPTED, INTERRUPTED_FOR_TOOL_USE, format_count
from clew.core.normalize.for_display import DisplayItem, for_display
from clew.fronts.render.folding import Folds, fold_text
from clew.fronts.render.grouping import CallGroup, can_fold
from clew.fronts.render.markdown import make_markdown
from clew.fronts.render.results import ToolResultView
from clew.fronts.render.rows import (
    GUTTER,
    Line,
    Span,
    escape_controls,
    fill_row,
    format_row,
    hang_lines,
    join_lines,
    wrap_spans,
)
from clew.fronts.render.stories import (
    STOPPED,
    CallStory,
    describe_news,
    describe_note,
    render_stopped,
    title_of,
)
from clew.fronts.render.theme import Look

Titles: TypeAlias = Callable[[Json], str]

# Messages to look at first; four times as many each time until there is enough to show.
FIRST_LOOK = 24
# The speakers' names where they are shown.
PERSON, MODEL = "You> ", "clew: "
# The styles of messages that the user did not ask for.
MARKED = frozenset({"notice", "error"})
# The most characters of one message.
RECALLED_CHARACTERS = 20_000
_PRINTED = re.compile("<bash-stdout>(.*)</bash-stdout><bash-stderr>(.*)</bash-stderr>", re.S)


def render_recalled(
    messages: Sequence[Json], rows: int, look: Look, folds: Folds, titles: Titles = title_of
) -> list[Line]:
    """Return about `rows` rows of the session's end, after a line that counts the earlier messages.

    `titles` returns the title of a tool call.
    """
    count = FIRST_LOOK
    while True:
        begin = max(0, len(messages) - count)
        blocks = list(_told(messages[begin:], look, folds, titles))
        if begin == 0 or sum(map(len, blocks)) >= rows:
            break
        count *= 4
    lines: list[Line] = []
    while blocks and len(lines) < rows:
        room = rows - len(lines)
        lines = _end_of(blocks.pop(), room) + lines
    if not begin and not blocks:
        return lines
    words = "earlier messages not shown"
    if begin:
        words = format_count(begin, "earlier message")
    return [format_row([Span(look.gutter), Span(f"… {words}", look.theme["quiet"])]), *lines]


# The messages that are shown in full, at most.
WHOLE_MESSAGES = 1_000


def render_whole(
    messages: Sequence[Json], look: Look, titles: Titles = title_of, *, is_running: bool = False
) -> Iterator[Line]:
    """Yield the lines of the session's last messages with nothing collapsed.

    The lines are painted as they are read. With `is_running`, calls without a result are left out.
    """
    begin = max(0, len(messages) - WHOLE_MESSAGES)
    if begin:
        words = f"… {begin:,} earlier messages"
        yield format_row([Span(look.gutter), Span(words, look.theme["quiet"])])
    look = replace(look, is_verbose=True)
    for lines in _told(messages[begin:], look, Folds(""), titles, is_running=is_running):
        yield from lines


def _end_of(lines: list[Line], rows: int) -> list[Line]:
    """Return the first lines of an item, which identify it, and the last `rows` lines."""
    if len(lines) <= rows + 2:
        return lines
    return [*lines[:2], "  …", *lines[-rows:]]


# The items after a call among which its result is looked for.
RESULT_WITHIN = 200


def _told(
    messages: Sequence[Json],
    look: Look,
    folds: Folds,
    titles: Titles,
    *,
    is_running: bool = False,
) -> Iterator[list[Line]]:
    """Yield the lines of each message and call, spaced as they were when first shown.

    With `is_running`, calls without a result are left out, because they may get one.
    """
    items = for_display(messages)
    was_call = False
    group = CallGroup()
    for number, item in enumerate(items):
        behind = items[number + 1 : number + RESULT_WITHIN]
        is_call = _kind(item) == "tool_use"
        if is_call and is_running and _result(item.block, behind) is None:
            continue
        if is_call and not look.says_who and (answer := _looked(item, behind, look, titles)):
            group.add(answer)
            continue
        lines = list(_item(item, behind, look, folds, titles))
        if not lines or (group and _kind(item) == "thinking"):
            continue
        if group:
            yield group.take(look, folds) if was_call else ["", *group.take(look, folds)]
            was_call = True
        is_close = (was_call and is_call) or _is_printed(item)
        yield lines if is_close else ["", *lines]
        was_call = is_call
    if group:
        yield group.take(look, folds) if was_call else ["", *group.take(look, folds)]


def _looked(
    item: DisplayItem, behind: list[DisplayItem], look: Look, titles: Titles
) -> ToolResultView | None:
    """Return a call's result if it can be folded with other reads and searches, or None."""
    story = CallStory(item.block)
    story.runs(item.block, titles(item.block))
    entry = _result(item.block, behind)
    if entry is None:
        return None
    answer = story.answer(entry, "", look, is_seen=False)
    return answer if can_fold(answer) and not look.is_verbose else None


def _result(block: Json, behind: list[DisplayItem]) -> Json | None:
    """Return the message with the result of a call, or None if there is none."""
    for item in behind:
        result = item.block if isinstance(item.block, dict) else {}
        if result.get("type") == "tool_result" and result.get("tool_use_id") == block.get("id"):
            return item.entry
    return None


def _kind(item: DisplayItem) -> Any:
    return item.block.get("type") if isinstance(item.block, dict) else None


def _is_printed(item: DisplayItem) -> bool:
    """Return whether the item is the output of the shell command right above it."""
    text = item.block.get("text") if isinstance(item.block, dict) else None
    return isinstance(text, str) and text.startswith("<bash-stdout>")


def _item(
    item: DisplayItem, behind: list[DisplayItem], look: Look, folds: Folds, titles: Titles
) -> Iterator[Line]:
    block = item.block if isinstance(item.block, dict) else {}
    kind, speaker = block.get("type"), item.entry.get("type")
    if kind == "tool_use":
        yield from _call(block, titles(block), behind, look, folds)
    elif kind == "text" and speaker == "assistant":
        yield from answered(str(block.get("text", "")), look)
    elif kind == "text" and speaker == "user":
        yield from _by_user(UserMessage(item.entry), str(block.get("text", "")), look, folds)
    elif kind == "thinking":
        yield from render_thought(str(block.get("thinking", "")), look, folds)
    elif speaker == "system" and item.entry.get("subtype") == "compact_boundary":
        words = "── Earlier messages were compacted ──"
        yield format_row([Span(look.gutter), Span(words, look.theme["quiet"])])
    elif speaker == "system" and (noted := describe_note(item.entry)):
        yield from render_note(join_lines(noted), look, "quiet")


def _by_user(entry: UserMessage, text: str, look: Look, folds: Folds) -> Iterator[Line]:
    """Yield the lines of a user message: a prompt, shell output, an interruption or task news."""
    if text in (INTERRUPTED, INTERRUPTED_FOR_TOOL_USE) and entry.is_synthetic:
        yield from render_note(STOPPED["aborted_streaming"], look, "quiet")
    elif (printed := _PRINTED.fullmatch(text)) is not None:
        shown_text = printed[1] + printed[2]
        shown_text = describe_background_start(shown_text) or shown_text
        yield from render_printed(shown_text, look, folds)
    elif entry.is_news:
        yield from render_note(describe_news(entry.data), look)
    elif entry.face == "typed":
        typed = as_typed(text)
        yield from render_prompt(typed if look.is_verbose else lift_pastes(typed)[0], look)


def _call(
    block: Json, title: str, behind: list[DisplayItem], look: Look, folds: Folds
) -> Iterator[Line]:
    story = CallStory(block)
    story.runs(block, title)
    entry = _result(block, behind)
    if entry is None:
        yield from story.head(look, is_error=True)
        yield render_stopped(look)
        return
    answer = story.answer(entry, "", look, is_seen=False)
    story.conclude(entry, look, folds)
    yield from story.head(look, is_error=answer.is_error)
    yield from story.told(answer, look, folds)


def answered(text: str, look: Look) -> Iterator[Line]:
    markdown = make_markdown(look.inner)
    who = Span(MODEL if look.says_who else look.gutter)
    for row in (*markdown.feed(_short(text)), *markdown.finish()):
        yield format_row([who, *row] if row else row)
        who = Span(look.gutter)


def render_prompt(text: str, look: Look) -> Iterator[Line]:
    """Yield the lines of a prompt, on a band that extends to the edge of the terminal."""
    mark = Span(PERSON if look.says_who else "> ", look.theme["marker"])
    spans = [Span(escape_controls(_short(text).strip("\n").expandtabs(4)), look.theme["person"])]
    for row in wrap_spans(spans, look.width - len(GUTTER)):
        yield format_row(fill_row([mark, *row], look.theme["person_line"]))
        mark = Span(GUTTER)


def render_note(text: str, look: Look, part: str = "notice") -> Iterator[Line]:
    """Yield the lines of a message from clew itself; `part` names the style.

    A notice and an error are marked in the gutter; the result of a command is not.
    """
    style = look.theme[part]
    is_marked = part in MARKED
    width = look.width - len(GUTTER) if is_marked else look.inner.width
    if is_marked and look.prose_cells:
        width = min(width, look.prose_cells)
    mark = Span("! ", style) if is_marked else Span(look.gutter)
    below = Span(GUTTER if is_marked else look.gutter)
    for row in hang_lines(escape_controls(text), style, width):
        yield format_row([mark, *row] if row else row)
        mark = below


def render_printed(text: str, look: Look, folds: Folds) -> Iterator[Line]:
    """Yield the lines of the output of the user's shell command."""
    for row in fold_text(text, "Shell output", look.inner, folds, part=""):
        yield format_row([Span(look.gutter), *row])


def render_thought(text: str, look: Look, folds: Folds) -> Iterator[Line]:
    """Yield one line about the model's thinking, which the user can expand.

    In a verbose look, yield the thinking itself.
    """
    words = len(text.split())
    if not words:
        return

    def whole(width: int) -> Iterator[list[Span]]:
        return wrap_spans([Span(escape_controls(text), look.theme["thinking"])], width)

    name = folds.keep(f"Thinking: {join_lines(text[:60])}", whole)
    if look.is_verbose:
        for row in whole(look.inner.width):
            yield format_row([Span(look.gutter), *row])
        return
    title = f"Thinking: {format_count(words, 'word')}{name}"
    yield format_row([Span(look.gutter), Span(title, look.theme["thinking"])])


def _short(text: str) -> str:
    rest = len(text) - RECALLED_CHARACTERS
    return (
        text
        if rest <= 0
        else f"{text[:RECALLED_CHARACTERS]}… ({format_count(rest, 'more character')})"
    )
