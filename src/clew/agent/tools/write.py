"""Write: a whole file, new or in place of one that was read."""

import os
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from clew.agent.tools import files
from clew.agent.tools.base import Tool, ToolContext, ToolError, ToolOutcome, ToolSession
from clew.agent.tools.files import FileText, count_lines, crlf, decode
from clew.agent.tools.patch import diff_texts
from clew.core.messages.text import format_count, unescape_like
from clew.system.files import is_there

# A record that holds a large file once for every edit of it cannot be read any more.
ORIGINAL_MAX_CHARS = 256 << 10


class WriteInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(min_length=1, description="The file; absolute is best")]
    content: Annotated[str, Meta(description="All that the file shall hold")]


class Write(Tool[WriteInput]):
    name = "Write"
    description = "Create a file, or write one anew"
    prompt = (
        "Writes a whole file; missing folders are made. A file that is there must have been read "
        "in this session and not changed since. To change parts of a file use Edit."
    )
    input_type = WriteInput

    def is_destructive(self, arguments: WriteInput) -> bool:
        return True

    def paths(self, arguments: WriteInput) -> tuple[str, ...]:
        return (arguments.file_path,)

    def title(self, arguments: WriteInput) -> str:
        return arguments.file_path

    def rehearse(self, arguments: WriteInput, session: ToolSession) -> None:
        path = session.path(arguments.file_path)
        if is_there(path):
            files.take_known(path, session)

    async def call(self, arguments: WriteInput, ctx: ToolContext) -> ToolOutcome:
        return put_content(ctx.session.path(arguments.file_path), arguments.content, ctx)


def put_content(path: Path, content: str, ctx: ToolContext) -> ToolOutcome:
    return (update if is_there(path) else create)(path, content, ctx)


def update(path: Path, content: str, ctx: ToolContext) -> ToolOutcome:
    old = files.take_known(path, ctx.session)
    text = decode(old.data) or FileText(text="")
    content = unescape_like(content, text.text)
    # Read shows lines without their carriage returns, so the model cannot have meant to drop them.
    new = crlf(content) if text.is_crlf else content
    written = files.put(old.path, encoded(text, new, path), old.status)
    files.note(ctx, written, make_whole_range(content))
    return ToolOutcome(
        content=f"Wrote {path}: {count(content)}.",
        tool_use_result=outcome("update", path, content, diff_texts(text.text, new), text.text),
        display=f"Wrote {count(content)}",
    )


def create(path: Path, content: str, ctx: ToolContext) -> ToolOutcome:
    """A new file under the user's umask, never over one that appeared meanwhile."""
    # A link that leads nowhere is created at its far end, as a shell's `>` does.
    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(f"The folder {path.parent} cannot be made: {error.strerror}.") from None
    written = files.put(path, encoded(FileText(text=""), content, path), None)
    files.note(ctx, written, make_whole_range(content))
    return ToolOutcome(
        content=f"Created {path}: {count(content)}.",
        tool_use_result=outcome("create", path, content, [], None),
        display=f"Created, {count(content)}",
    )


def encoded(like: FileText, content: str, path: Path) -> bytes:
    """In the encoding of the file that was there; UTF-8 where that cannot hold the new text."""
    try:
        return like.encode(content)
    except UnicodeEncodeError:
        pass
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolError(
            f"The content for {path} holds half a surrogate pair; leave it out."
        ) from None


def outcome(
    kind: str, path: Path, content: str, patch: list[dict[str, Any]], before: str | None
) -> dict[str, Any]:
    return {
        "type": kind,
        "filePath": str(path),
        "content": content,
        "structuredPatch": patch,
        "originalFile": None if before is None else read_original(before),
    }


def read_original(text: str) -> str | None:
    """What was in a file, for whoever reads the record; of a large one the hunks must do."""
    return text if len(text) <= ORIGINAL_MAX_CHARS else None


def make_whole_range(content: str) -> tuple[tuple[int, int], ...]:
    total = count_lines(content)
    return ((1, total),) if total else ()


def count(content: str) -> str:
    total = count_lines(content)
    return format_count(total, "line")
