"""Write: create or overwrite a file."""

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from clew.agent.tools import files
from clew.agent.tools.base import (
    Tool,
    ToolContext,
    ToolError,
    ToolOutcome,
    ToolSession,
    locate,
)
from clew.agent.tools.files import FileText, count_lines, crlf, decode
from clew.agent.tools.patch import diff_texts
from clew.core.messages.text import format_count, unescape_like
from clew.system.files import is_there, make_folder_without_links

# A transcript that contains a large file once for every edit becomes unreadable.
ORIGINAL_MAX_CHARS = 256 << 10


class WriteInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(min_length=1, description="Preferably absolute")]
    content: Annotated[str, Meta(description="The full content")]


class Write(Tool[WriteInput]):
    name = "Write"
    description = "Create or overwrite a file"
    prompt = (
        "Write an entire file; missing folders are created. An existing file must have been read"
        " in this session and not changed since. To change parts of a file, use Edit."
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
        if is_there(locate(path)):
            files.take_known(path, session)

    async def call(self, arguments: WriteInput, ctx: ToolContext) -> ToolOutcome:
        return put_content(ctx.session.path(arguments.file_path), arguments.content, ctx)


def put_content(path: Path, content: str, ctx: ToolContext) -> ToolOutcome:
    return (update if is_there(locate(path)) else create)(path, content, ctx)


def update(path: Path, content: str, ctx: ToolContext) -> ToolOutcome:
    old = files.take_known(path, ctx.session)
    text = decode(old.data) or FileText(text="")
    content = unescape_like(content, text.text)
    # Read shows lines without carriage returns, so the model can't have meant to drop them.
    new = crlf(content) if text.is_crlf else content
    written = files.put(old.path, encode_content(text, new, path), old.status)
    files.note(ctx, written, make_whole_range(content))
    return ToolOutcome(
        content=f"Wrote {path}: {count(content)}.",
        tool_use_result=outcome("update", path, content, diff_texts(text.text, new), text.text),
        display=f"Wrote {count(content)}",
    )


def create(path: Path, content: str, ctx: ToolContext) -> ToolOutcome:
    """Create a file with the user's umask; never replace one that was created in the meantime."""
    # A dangling link is followed, as a shell's `>` does.
    path = locate(path)
    try:
        make_folder_without_links(str(path.parent))
    except OSError as error:
        raise ToolError(f"Can't create the folder {path.parent}: {error.strerror}.") from None
    written = files.put(path, encode_content(FileText(text=""), content, path), None)
    files.note(ctx, written, make_whole_range(content))
    return ToolOutcome(
        content=f"Created {path}: {count(content)}.",
        tool_use_result=outcome("create", path, content, [], None),
        display=f"Created, {count(content)}",
    )


def encode_content(like: FileText, content: str, path: Path) -> bytes:
    """Encode the content like the old file, or in UTF-8 if the old encoding lacks a character."""
    try:
        return like.encode(content)
    except UnicodeEncodeError:
        pass
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolError(
            f"The content for {path} contains a lone surrogate; leave it out."
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
        "userModified": False,
    }


def read_original(text: str) -> str | None:
    """Return the previous content for the transcript, or None if it is large.

    For a large file, the transcript contains only the hunks.
    """
    return text if len(text) <= ORIGINAL_MAX_CHARS else None


def make_whole_range(content: str) -> tuple[tuple[int, int], ...]:
    total = count_lines(content)
    return ((1, total),) if total else ()


def count(content: str) -> str:
    total = count_lines(content)
    return format_count(total, "line")
