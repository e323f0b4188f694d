"""Glob, LS and Grep: find files, list folders and search in files."""

import os
import time
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from clew.agent.tools.base import Tool, ToolContext, ToolError, ToolOutcome, locate, refuse_odd
from clew.agent.tools.files import open_decided
from clew.agent.tools.search import Job
from clew.agent.tools.searching import (
    SearchOutput,
    SearchPlace,
    display_path,
    find_ripgrep,
    place,
    search,
)
from clew.core.messages.text import format_count

# Glob: the files whose names match a pattern, newest first.


MOST_FILES = 100


class GlobInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(min_length=1, description="For example **/*.py or src/*.{js,ts}")]
    path: Annotated[str, Meta(description="The folder; default: the working folder")] | None = None


class Glob(Tool[GlobInput]):
    name = "Glob"
    description = "Find files by name"
    prompt = (
        f"Find files whose names match a pattern, newest first, at most {MOST_FILES}. A pattern "
        "without a slash matches in all subfolders. Files excluded by .gitignore are omitted."
    )
    input_type = GlobInput

    def is_read_only(self, arguments: GlobInput) -> bool:
        return True

    def paths(self, arguments: GlobInput) -> tuple[str, ...]:
        return (arguments.path or ".",)

    def title(self, arguments: GlobInput) -> str:
        return (
            arguments.pattern
            if arguments.path is None
            else f"{arguments.pattern} in {arguments.path}"
        )

    async def call(self, arguments: GlobInput, ctx: ToolContext) -> ToolOutcome:
        began = time.perf_counter()
        where = place(ctx, arguments.path)
        output = await search(ctx, where, Job(globs=[arguments.pattern]), find_ripgrep())
        names = [display_path(ctx, where, name) for name in output.text.split("\0") if name]
        files, truncated = names[:MOST_FILES], len(names) > MOST_FILES or output.cut
        content = "\n".join(files) or "No files match."
        if truncated:
            content += (
                f"\n(The newest {len(files)} of {len(names):,}. "
                "Use a narrower pattern to see others.)"
            )
        return ToolOutcome(
            content=content,
            tool_use_result={
                "filenames": files,
                "durationMs": round((time.perf_counter() - began) * 1000),
                "numFiles": len(files),
                "truncated": truncated,
            },
            display=format_count(len(names), "file"),
        )


# LS: the names in a folder, one per line.


MOST_NAMES = 1000


class LSInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(min_length=1, description="Preferably absolute")]
    ignore: Annotated[list[str], Meta(description="Names to omit: *.pyc, node_modules")] = field(
        default_factory=list
    )


class LS(Tool[LSInput]):
    name = "LS"
    description = "List a folder"
    prompt = (
        "List a folder, including hidden and ignored names: folders end in a slash, files show "
        "their size, links their target. To find files by name in all subfolders, use Glob."
    )
    input_type = LSInput

    def is_read_only(self, arguments: LSInput) -> bool:
        return True

    def paths(self, arguments: LSInput) -> tuple[str, ...]:
        return (arguments.path,)

    def title(self, arguments: LSInput) -> str:
        return arguments.path

    async def call(self, arguments: LSInput, ctx: ToolContext) -> ToolOutcome:
        return list_folder(ctx.session.path(arguments.path), arguments.ignore, ctx)


class Name(Struct, frozen=True, kw_only=True):
    """One entry of a folder, with its line in the output."""

    name: str
    line: str
    is_folder: bool


def list_folder(folder: Path, ignore: list[str], ctx: ToolContext) -> ToolOutcome:
    from clew.agent.tools.search import make_chooser

    for glob in ignore:
        refuse_odd(glob, "A pattern")
    wanted = make_chooser([f"!{glob}" for glob in ignore]) if ignore else None
    may_read = ctx.session.files.may_read(str(locate(folder)))
    try:
        opened = open_decided(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with os.scandir(opened) as entries:
                items = [
                    describe_entry(entry, opened)
                    for entry in entries
                    if (wanted is None or wanted(entry.name)) and may_read(entry.name)
                ]
        finally:
            os.close(opened)
    except FileNotFoundError:
        raise ToolError(f"Folder not found: {folder}.") from None
    except NotADirectoryError:
        raise ToolError(f"{folder} is a file, not a folder.", "Use Read.") from None
    except OSError as error:
        raise ToolError(f"Can't list {folder}: {error.strerror}.") from None
    items.sort(key=lambda item: (not item.is_folder, item.name))
    shown_items = items[:MOST_NAMES]
    lines = "\n".join(item.line for item in shown_items)
    note = f"\n(The first {MOST_NAMES:,} of {len(items):,}.)" if len(items) > MOST_NAMES else ""
    count = format_count(len(items), "name")
    return ToolOutcome(
        content=f"{folder} has {count}:\n{lines}{note}" if items else f"({folder} is empty.)",
        tool_use_result={
            "type": "folder",
            "path": str(folder),
            "names": [item.name for item in shown_items],
            "numNames": len(items),
        },
        display=count,
    )


def describe_entry(entry: "os.DirEntry[str]", folder: int) -> Name:
    name = entry.name.encode("utf-8", "backslashreplace").decode()
    if entry.is_symlink():
        return Name(name=name, line=f"{name} -> {leads_to(entry.name, folder)}", is_folder=False)
    if entry.is_dir(follow_symlinks=False):
        return Name(name=f"{name}/", line=f"{name}/", is_folder=True)
    try:
        size = format_count(entry.stat(follow_symlinks=False).st_size, "byte")
    except OSError:
        size = "deleted in the meantime"
    return Name(name=name, line=f"{name} ({size})", is_folder=False)


def leads_to(name: str, folder: int) -> str:
    try:
        return os.fsencode(os.readlink(name, dir_fd=folder)).decode("utf-8", "backslashreplace")
    except OSError:
        return "?"


MOST_ENTRIES = 250
LINE_MAX_CHARS = 500

Mode = Literal["files_with_matches", "content", "count"]
After = Annotated[int, Meta(ge=0, le=1000, description="Lines after each match")]
Before = Annotated[int, Meta(ge=0, le=1000, description="Lines before each match")]
Around = Annotated[int, Meta(ge=0, le=1000, description="Lines before and after")]

TYPES = {
    "c": "*.{c,h}", "cpp": "*.{C,cc,cpp,cxx,h,hh,hpp,hxx}", "css": "*.{css,scss}",
    "go": "*.go", "html": "*.{htm,html}", "java": "*.java",
    "js": "*.{js,jsx,mjs,cjs}", "json": "*.json", "md": "*.{md,markdown}",
    "php": "*.php", "py": "*.{py,pyi}", "ruby": "*.rb", "rust": "*.rs", "sh": "*.{sh,bash,zsh}",
    "sql": "*.sql", "swift": "*.swift", "toml": "*.toml", "ts": "*.{ts,tsx,mts,cts}",
    "txt": "*.txt", "xml": "*.xml", "yaml": "*.{yaml,yml}",
}  # fmt: skip


class GrepInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(min_length=1, description="A regular expression")]
    path: Annotated[str, Meta(description="File or folder; default: the working folder")] | None = (
        None
    )
    glob: Annotated[str, Meta(description="Only matching file names: *.{ts,tsx}")] | None = None
    type: Annotated[str, Meta(description="Only this file type: py, js, rust")] | None = None
    output_mode: Annotated[
        Mode, Meta(description="File names (default), lines, or line counts per file")
    ] = "files_with_matches"
    after: After | None = field(default=None, name="-A")
    before: Before | None = field(default=None, name="-B")
    around: Around | None = field(default=None, name="-C")
    ignore_case: Annotated[bool, Meta(description="Ignore case")] = field(default=False, name="-i")
    numbers: Annotated[bool, Meta(description="Line numbers (default: on)")] = field(
        default=True, name="-n"
    )
    head_limit: Annotated[int, Meta(ge=0, description="How many lines or files; 0: all")] | None = (
        None
    )
    offset: Annotated[int, Meta(ge=0, description="How many lines or files to skip")] = 0
    multiline: Annotated[bool, Meta(description="Let . and the pattern match across lines")] = False


class Grep(Tool[GrepInput]):
    name = "Grep"
    description = "Search in files by regular expression"
    prompt = (
        "Search file contents by regular expression, line by line. -A, -B, -C and -n apply to "
        f"output_mode content. Returns at most {MOST_ENTRIES} lines or files unless head_limit is"
        " set. Files excluded by .gitignore are omitted. Use it instead of grep or rg in Bash."
    )
    input_type = GrepInput

    def is_read_only(self, arguments: GrepInput) -> bool:
        return True

    def paths(self, arguments: GrepInput) -> tuple[str, ...]:
        return (arguments.path or ".",)

    def title(self, arguments: GrepInput) -> str:
        return (
            arguments.pattern
            if arguments.path is None
            else f"{arguments.pattern} in {arguments.path}"
        )

    async def call(self, arguments: GrepInput, ctx: ToolContext) -> ToolOutcome:
        return await grep(arguments, ctx, find_ripgrep())


async def grep(arguments: GrepInput, ctx: ToolContext, program: str | None) -> ToolOutcome:
    where = place(ctx, arguments.path)
    output = await search(ctx, where, job_of(arguments), program)
    most = EntryRange(
        first=arguments.offset,
        most=MOST_ENTRIES if arguments.head_limit is None else arguments.head_limit,
    )
    match arguments.output_mode:
        case "files_with_matches":
            entries = [display_path(ctx, where, name) for name in output.text.split("\0") if name]
            return list_matching_files(entries, most, output)
        case "content":
            lines = [content_line(arguments, ctx, where, line) for line in rows(output)]
            return content(lines, most, output)
        case "count":
            counts = [line.rsplit("\0", 1) for line in rows(output)]
            return render_counts(
                [(display_path(ctx, where, n), int(c)) for n, c in counts], most, output
            )


def job_of(arguments: GrepInput) -> Job:
    globs = [arguments.glob] if arguments.glob else []
    if arguments.type is not None:
        if arguments.type not in TYPES:
            raise ToolError(
                f"Unknown type {arguments.type}.", f"Use glob, or one of: {', '.join(TYPES)}."
            )
        if globs:
            raise ToolError("Use either type or glob, not both.")
        globs = [TYPES[arguments.type]]
    shows = arguments.output_mode == "content"
    around = arguments.around or 0
    return Job(
        pattern=arguments.pattern,
        mode=arguments.output_mode,
        ignore_case=arguments.ignore_case,
        multiline=arguments.multiline,
        before=(around if arguments.before is None else arguments.before) if shows else 0,
        after=(around if arguments.after is None else arguments.after) if shows else 0,
        globs=globs,
    )


def rows(output: SearchOutput) -> list[str]:
    lines = output.text.split("\n")
    # The text after the last newline is empty, or a line that was cut.
    lines.pop()
    return lines


def content_line(arguments: GrepInput, ctx: ToolContext, where: SearchPlace, line: str) -> str:
    name, separator, rest = line.partition("\0")
    if not separator:
        return line
    digits = len(rest) - len(rest.lstrip("0123456789"))
    number, mark, text = rest[:digits], rest[digits : digits + 1], rest[digits + 1 :].rstrip("\r")
    if len(text) > LINE_MAX_CHARS:
        rest_text = format_count(len(text) - LINE_MAX_CHARS, "more character")
        text = f"{text[:LINE_MAX_CHARS]}… [{rest_text}]"
    path = display_path(ctx, where, name)
    return f"{path}{mark}{number}{mark}{text}" if arguments.numbers else f"{path}{mark}{text}"


class EntryRange(Struct, frozen=True, kw_only=True):
    """The range of entries to return; if `most` is 0, all entries from `first` on."""

    first: int
    most: int


def select_page(
    entries: list[str], part: EntryRange, output: SearchOutput, what: str
) -> tuple[list[str], str]:
    end = part.first + part.most if part.most else None
    page = entries[part.first : end]
    if len(page) == len(entries) and not output.cut:
        return page, ""
    total = f"{len(entries):,}{' or more' if output.cut else ''}"
    if not part.first:
        return page, f"\n(The first {len(page):,} of {total} {what}; head_limit sets the number.)"
    return page, f"\n({len(page):,} of {total} {what}, starting at {part.first + 1:,}.)"


def list_matching_files(names: list[str], most: EntryRange, output: SearchOutput) -> ToolOutcome:
    page, note = select_page(names, most, output, "files")
    return ToolOutcome(
        content=("\n".join(page) or "No files match.") + note,
        tool_use_result={
            "mode": "files_with_matches",
            "numFiles": len(page),
            "filenames": page,
        },
        display=format_count(len(names), "file"),
    )


def content(lines: list[str], most: EntryRange, output: SearchOutput) -> ToolOutcome:
    page, note = select_page(lines, most, output, "lines")
    text = "\n".join(page)
    return ToolOutcome(
        content=(text or "No lines match.") + note,
        tool_use_result={
            "mode": "content",
            "numFiles": 0,
            "filenames": [],
            "content": text,
            "numLines": len(page),
        },
        display=format_count(len(lines), "line"),
    )


def render_counts(
    counts: list[tuple[str, int]], most: EntryRange, output: SearchOutput
) -> ToolOutcome:
    page, note = select_page([f"{name}:{count}" for name, count in counts], most, output, "files")
    total = sum(count for _, count in counts)
    return ToolOutcome(
        content=("\n".join(page) or "No lines match.") + note,
        tool_use_result={
            "mode": "count",
            "numFiles": len(page),
            "filenames": [],
            "content": "\n".join(page),
            "numMatches": total,
        },
        display=f"{total:,} in {format_count(len(counts), 'file')}",
    )
