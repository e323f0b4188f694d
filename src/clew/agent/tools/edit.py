"""Edit and MultiEdit: replace exact strings in a file and leave every other byte unchanged.

Decision: docs/decisions/072-file-edits.md
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Protocol

from msgspec import Meta, Struct, to_builtins

from clew.agent.tools import files
from clew.agent.tools.base import (
    Tool,
    ToolContext,
    ToolError,
    ToolOutcome,
    ToolSession,
    locate,
)
from clew.agent.tools.files import NO_TEXT_FILE, FileText, count_lines, crlf, decode, is_crlf
from clew.agent.tools.patch import Region, diff_regions, replace_spans
from clew.agent.tools.write import create, make_whole_range, read_original
from clew.core.messages.text import format_count, unescape_tags
from clew.system.files import is_there

LINE_NUMBERS = re.compile(r"(?m)^\s*\d+\t")


class EditStep(Protocol):
    """One replacement, as every editing tool receives it."""

    @property
    def old_string(self) -> str: ...

    @property
    def new_string(self) -> str: ...

    @property
    def replace_all(self) -> bool: ...


class EditInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(min_length=1, description="Preferably absolute")]
    old_string: Annotated[str, Meta(description="The exact text to replace")]
    new_string: Annotated[str, Meta(description="The replacement")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence")] = False


class Edit(Tool[EditInput]):
    name = "Edit"
    description = "Replace an exact string in a file"
    prompt = (
        "Replace old_string with new_string in a file that was read in this session and has not "
        "changed since. old_string must match the file exactly, including white space, without "
        "the line numbers that Read adds, and must occur once: include surrounding lines, or set"
        " replace_all. An empty old_string creates a new file."
    )
    input_type = EditInput

    def paths(self, arguments: EditInput) -> tuple[str, ...]:
        return (arguments.file_path,)

    def title(self, arguments: EditInput) -> str:
        return arguments.file_path

    def rehearse(self, arguments: EditInput, session: ToolSession) -> None:
        plan_edit(session.path(arguments.file_path), [arguments], session)

    async def call(self, arguments: EditInput, ctx: ToolContext) -> ToolOutcome:
        path = ctx.session.path(arguments.file_path)
        done = edit(path, [arguments], ctx)
        return done if isinstance(done, ToolOutcome) else report_edit(done, arguments)


class EditedFile(Struct, frozen=True, kw_only=True):
    """A changed file: its text before and after, its changed regions, and its replacements.

    Each element of `made` contains an old string, its replacement and the number of occurrences.
    """

    path: Path
    before: str
    after: str
    regions: list[Region]
    made: list[tuple[str, str, int]]

    @property
    def times(self) -> int:
        return sum(count for _, _, count in self.made)


class Planned(Struct, frozen=True, kw_only=True):
    """A planned change: the file as it was read, and the content that will replace it."""

    known: files.FileSnapshot
    done: EditedFile
    data: bytes


def edit(path: Path, steps: Sequence[EditStep], ctx: ToolContext) -> EditedFile | ToolOutcome:
    """Apply all steps or none; each step changes the result of the previous one."""
    plan = plan_edit(path, steps, ctx.session)
    if isinstance(plan, str):
        return create(path, plan, ctx)
    written = files.put(plan.known.path, plan.data, plan.known.status)
    files.note(ctx, written, make_whole_range(plan.done.after))
    return plan.done


def plan_edit(path: Path, steps: Sequence[EditStep], session: ToolSession) -> Planned | str:
    """Return the change that an edit would make; for a new file, return its text."""
    for step in steps:
        if step.old_string == step.new_string:
            raise ToolError("old_string and new_string are the same; nothing to change.")
    if not steps[0].old_string:
        return plan_creation(path, steps)
    snapshot = files.take_known(path, session)
    text = decode(snapshot.data)
    if text is None:
        raise ToolError(f"{path} {NO_TEXT_FILE}.", "Change it with a command or a script.")
    done = apply_steps(path, text.text, steps)
    return Planned(known=snapshot, done=done, data=encode_text(text, done.after, path))


def plan_creation(path: Path, steps: Sequence[EditStep]) -> str:
    """Return the text of a new file: the first step's new text, changed by the later steps."""
    if is_there(locate(path)):
        raise ToolError(f"{path} already exists, so old_string must not be empty.")
    text = steps[0].new_string
    return apply_steps(path, text, steps[1:]).after if steps[1:] else text


def apply_steps(path: Path, text: str, steps: Sequence[EditStep]) -> EditedFile:
    after, regions, replacements = text, list[Region](), []
    for number, step in enumerate(steps, 1):
        try:
            old, new, spans = find_occurrences(after, step, path)
        except ToolError as error:
            if len(steps) == 1:
                raise
            raise ToolError(
                f"Edit {number} of {len(steps)}: {error.problem}",
                f"{error.hint} Nothing was changed.".lstrip(),
            ) from None
        regions = replace_spans(regions, spans, len(new))
        after = put_in(after, spans, new)
        replacements.append((old, new, len(spans)))
    return EditedFile(path=path, before=text, after=after, regions=regions, made=replacements)


def find_occurrences(
    text: str, step: EditStep, path: Path
) -> tuple[str, str, list[tuple[int, int]]]:
    """Return the old and new strings with the file's line endings, and the old string's spans.

    There must be exactly one span unless the step replaces all.
    """
    old, new = step.old_string, step.new_string
    if not old:
        raise ToolError("old_string must not be empty: the file already exists.")
    spans = find(text, old)
    if not spans and (plain := unescape_tags(old)) != old and crlf(plain) in crlf(text):
        # The model saw tags like clew's own with a backslash that the file does not have.
        old, new = plain, unescape_tags(new)
        spans = find(text, old)
    if not spans and "\r\n" in text and "\n" in old:
        # Read shows lines without the carriage return, so the model can't know of it.
        old, new = crlf(old), crlf(new)
        spans = find(text, old)
    elif is_crlf(text):
        new = crlf(new)
    if not spans:
        raise ToolError(f"old_string not found in {path}.", why_not(text, step.old_string))
    if len(spans) > 1 and not step.replace_all:
        at = [text.count("\n", 0, begin) + 1 for begin, _ in spans]
        line_numbers = ", ".join(map(str, at[:10])) + (", ..." if len(at) > 10 else "")
        raise ToolError(
            f"old_string occurs {len(spans)} times in {path} (lines {line_numbers}).",
            "Include more of the surrounding text, or set replace_all.",
        )
    return old, new, spans


def find(text: str, old: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    at = text.find(old)
    while at >= 0:
        spans.append((at, at + len(old)))
        at = text.find(old, at + len(old))
    return spans


def why_not(text: str, old: str) -> str:
    """Return a hint that tells the model why `old_string` was not found."""
    bare = LINE_NUMBERS.sub("", old)
    if bare != old and bare.strip() and bare in text:
        return "old_string contains the line numbers that Read adds; leave them out."
    words = re.escape(" ".join(old.split())).replace(r"\ ", r"\s+")
    if len(words) < 20_000 and words and (match := re.search(words, text)):
        line = text.count("\n", 0, match.start()) + 1
        return f"The text at line {line} differs only in white space; copy it exactly."
    return "Read the file again and copy the text exactly."


def put_in(text: str, spans: list[tuple[int, int]], new: str) -> str:
    parts: list[str] = []
    at = 0
    for begin, end in spans:
        parts += (text[at:begin], new)
        at = end
    return "".join((*parts, text[at:]))


def encode_text(like: FileText, text: str, path: Path) -> bytes:
    try:
        return like.encode(text)
    except UnicodeEncodeError as error:
        character = text[error.start]
        raise ToolError(
            f"{path} is encoded as {like.encoding}, which can't represent {character!r}.",
            "Use other characters, or convert the file to UTF-8 first.",
        ) from None


def report_edit(done: EditedFile, arguments: EditInput) -> ToolOutcome:
    """Return the outcome of one edit."""
    (replacement,) = done.made
    return ToolOutcome(
        content=describe_edit(done),
        tool_use_result={
            "filePath": str(done.path),
            "oldString": replacement[0],
            "newString": replacement[1],
            "originalFile": read_original(done.before),
            "structuredPatch": diff_regions(done.before, done.after, done.regions),
            "userModified": False,
            "replaceAll": arguments.replace_all,
        },
        display=count_replacements(done.times),
    )


def describe_edit(done: EditedFile) -> str:
    first = done.before.count("\n", 0, done.regions[0][0]) + 1
    return (
        f"Edited {done.path}: {count_replacements(done.times)}, the first at line {first}; the file now has "
        f"{format_count(count_lines(done.after), 'line')}."
    )


def count_replacements(times: int) -> str:
    return format_count(times, "replacement")


# MultiEdit: several replacements in one file, all or nothing.


class OneEdit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    old_string: str
    new_string: str
    replace_all: bool = False


class MultiEditInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(min_length=1, description="Preferably absolute")]
    edits: Annotated[
        list[OneEdit],
        Meta(min_length=1, description="Applied in order, each to the result of the one before"),
    ]


class MultiEdit(Tool[MultiEditInput]):
    name = "MultiEdit"
    description = "Replace several exact strings in a file, all or nothing"
    prompt = (
        "Make several edits in one file, under the rules of Edit. Each applies to the result of "
        "the one before; if one fails, none is made. With an empty old_string the first edit "
        "creates the file."
    )
    input_type = MultiEditInput

    def paths(self, arguments: MultiEditInput) -> tuple[str, ...]:
        return (arguments.file_path,)

    def title(self, arguments: MultiEditInput) -> str:
        return f"{arguments.file_path}, {format_count(len(arguments.edits), 'edit')}"

    def rehearse(self, arguments: MultiEditInput, session: ToolSession) -> None:
        plan_edit(session.path(arguments.file_path), arguments.edits, session)

    async def call(self, arguments: MultiEditInput, ctx: ToolContext) -> ToolOutcome:
        done = edit(ctx.session.path(arguments.file_path), arguments.edits, ctx)
        if isinstance(done, ToolOutcome):
            return done
        return ToolOutcome(
            content=describe_edit(done),
            tool_use_result={
                "filePath": str(done.path),
                "edits": to_builtins(arguments.edits),
                "originalFileContents": read_original(done.before),
                "structuredPatch": diff_regions(done.before, done.after, done.regions),
                "userModified": False,
            },
            display=count_replacements(done.times),
        )
