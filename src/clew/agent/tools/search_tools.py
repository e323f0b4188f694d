"""Grep: what lies in files, by regular expression."""

import os
import time
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from clew.agent.tools.base import Tool, ToolContext, ToolError, ToolOutcome, refuse_odd
from clew.agent.tools.search import Job
from clew.agent.tools.searching import (
    SearchOutput,
    SearchPlace,
    display_path,
    place,
    ripgrep,
    search,
)
from clew.core.messages.text import count_of

# Glob: the files whose names fit a pattern, newest first.


MOST_FILES = 100


class GlobInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(min_length=1, description="Such as **/*.py or src/*.{js,ts}")]
    path: Annotated[str, Meta(description="Where to look; else the working folder")] | None = None


class Glob(Tool[GlobInput]):
    name = "Glob"
    description = "Find files by name"
    prompt = (
        "Finds files whose names fit a pattern, the newest first, at most "
        f"{MOST_FILES}. A pattern without a slash fits in every folder below. What .gitignore "
        "excludes is left out."
    )
    input_type = GlobInput

    def is_read_only(self, given: GlobInput) -> bool:
        return True

    def paths(self, given: GlobInput) -> tuple[str, ...]:
        return (given.path or ".",)

    def title(self, given: GlobInput) -> str:
        return given.pattern if given.path is None else f"{given.pattern} in {given.path}"

    async def call(self, given: GlobInput, ctx: ToolContext) -> ToolOutcome:
        began = time.perf_counter()
        where = place(ctx, given.path)
        found = await search(ctx, where, Job(globs=[given.pattern]), ripgrep())
        names = [display_path(ctx, where, name) for name in found.text.split("\0") if name]
        files, truncated = names[:MOST_FILES], len(names) > MOST_FILES or found.cut
        content = "\n".join(files) or "No files fit."
        if truncated:
            content += (
                f"\n(The newest {len(files)} of {len(names):,}. A narrower pattern shows others.)"
            )
        return ToolOutcome(
            content=content,
            tool_use_result={
                "filenames": files,
                "durationMs": round((time.perf_counter() - began) * 1000),
                "numFiles": len(files),
                "truncated": truncated,
            },
            display=count_of(len(names), "file"),
        )


# LS: what is in a folder, one line for each name.


MOST_NAMES = 1000


class LSInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(min_length=1, description="The folder; absolute is best")]
    ignore: Annotated[list[str], Meta(description="Leave out such names: *.pyc, node_modules")] = (
        field(default_factory=list)
    )


class LS(Tool[LSInput]):
    name = "LS"
    description = "List a folder"
    prompt = (
        "Lists what is in a folder, hidden names and ignored ones too: folders with a slash at the "
        "end, files with their size, links with where they lead. To find files by name in all "
        "folders below use Glob."
    )
    input_type = LSInput

    def is_read_only(self, given: LSInput) -> bool:
        return True

    def paths(self, given: LSInput) -> tuple[str, ...]:
        return (given.path,)

    def title(self, given: LSInput) -> str:
        return given.path

    async def call(self, given: LSInput, ctx: ToolContext) -> ToolOutcome:
        return list_folder(ctx.session.path(given.path), given.ignore, ctx)


class Name(Struct, frozen=True, kw_only=True):
    """One entry of a folder and the line that shows it."""

    name: str
    line: str
    is_folder: bool


def list_folder(folder: Path, ignore: list[str], ctx: ToolContext) -> ToolOutcome:
    from clew.agent.tools.search import chooser

    for glob in ignore:
        refuse_odd(glob, "A pattern")
    wanted = chooser([f"!{glob}" for glob in ignore]) if ignore else None
    may_read = ctx.session.files.may_read(str(folder))
    try:
        with os.scandir(folder) as entries:
            found = [
                named(entry)
                for entry in entries
                if (wanted is None or wanted(entry.name)) and may_read(entry.name)
            ]
    except FileNotFoundError:
        raise ToolError(f"There is no folder {folder}.") from None
    except NotADirectoryError:
        raise ToolError(f"{folder} is a file, not a folder. Use Read.") from None
    except OSError as error:
        raise ToolError(f"{folder} cannot be listed: {error.strerror}.") from None
    found.sort(key=lambda one: (not one.is_folder, one.name))
    shown = found[:MOST_NAMES]
    lines = "\n".join(one.line for one in shown)
    more = f"\n(The first {MOST_NAMES:,} of {len(found):,}.)" if len(found) > MOST_NAMES else ""
    count = count_of(len(found), "name")
    return ToolOutcome(
        content=f"{folder} holds {count}:\n{lines}{more}" if found else f"({folder} is empty.)",
        tool_use_result={
            "type": "folder",
            "path": str(folder),
            "names": [one.name for one in shown],
            "numNames": len(found),
        },
        display=count,
    )


def named(entry: "os.DirEntry[str]") -> Name:
    name = entry.name.encode("utf-8", "backslashreplace").decode()
    if entry.is_symlink():
        return Name(name=name, line=f"{name} -> {leads_to(entry.path)}", is_folder=False)
    if entry.is_dir(follow_symlinks=False):
        return Name(name=f"{name}/", line=f"{name}/", is_folder=True)
    try:
        size = f"{entry.stat(follow_symlinks=False).st_size:,} bytes"
    except OSError:
        size = "gone meanwhile"
    return Name(name=name, line=f"{name} ({size})", is_folder=False)


def leads_to(path: str) -> str:
    try:
        return os.fsencode(Path(path).readlink()).decode("utf-8", "backslashreplace")
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
    path: Annotated[str, Meta(description="A file or folder; else the working folder")] | None = (
        None
    )
    glob: Annotated[str, Meta(description="Only files of such names: *.{ts,tsx}")] | None = None
    type: Annotated[str, Meta(description="Only files of this kind: py, js, rust")] | None = None
    output_mode: Annotated[
        Mode, Meta(description="File names (the default), the lines, or how many lines in each")
    ] = "files_with_matches"
    after: After | None = field(default=None, name="-A")
    before: Before | None = field(default=None, name="-B")
    around: Around | None = field(default=None, name="-C")
    ignore_case: Annotated[bool, Meta(description="Ignore case")] = field(default=False, name="-i")
    numbers: Annotated[bool, Meta(description="Line numbers; on by default")] = field(
        default=True, name="-n"
    )
    head_limit: Annotated[int, Meta(ge=0, description="How many lines or files; 0: all")] | None = (
        None
    )
    offset: Annotated[int, Meta(ge=0, description="How many lines or files to pass over first")] = 0
    multiline: Annotated[bool, Meta(description="Let . and the pattern cross line ends")] = False


class Grep(Tool[GrepInput]):
    name = "Grep"
    description = "Search in files by regular expression"
    prompt = (
        "Searches the text of files by regular expression, line by line. -A, -B, -C (lines after, "
        "before, around) and -n (line numbers, on by default) go with output_mode content; -i "
        f"ignores case. At most {MOST_ENTRIES} lines or files come back unless head_limit says "
        "otherwise. What .gitignore excludes is left out. Use it rather than grep or rg in Bash."
    )
    input_type = GrepInput

    def is_read_only(self, given: GrepInput) -> bool:
        return True

    def paths(self, given: GrepInput) -> tuple[str, ...]:
        return (given.path or ".",)

    def title(self, given: GrepInput) -> str:
        return given.pattern if given.path is None else f"{given.pattern} in {given.path}"

    async def call(self, given: GrepInput, ctx: ToolContext) -> ToolOutcome:
        return await grep(given, ctx, ripgrep())


async def grep(given: GrepInput, ctx: ToolContext, program: str | None) -> ToolOutcome:
    where = place(ctx, given.path)
    found = await search(ctx, where, job_of(given), program)
    most = EntryRange(
        first=given.offset,
        most=MOST_ENTRIES if given.head_limit is None else given.head_limit,
    )
    match given.output_mode:
        case "files_with_matches":
            entries = [display_path(ctx, where, name) for name in found.text.split("\0") if name]
            return list_matching_files(entries, most, found)
        case "content":
            lines = [content_line(given, ctx, where, line) for line in rows(found)]
            return content(lines, most, found)
        case "count":
            counts = [line.rsplit("\0", 1) for line in rows(found)]
            return counted([(display_path(ctx, where, n), int(c)) for n, c in counts], most, found)


def job_of(given: GrepInput) -> Job:
    globs = [given.glob] if given.glob else []
    if given.type is not None:
        if given.type not in TYPES:
            raise ToolError(
                f"There is no type {given.type}; use glob, or one of: {', '.join(TYPES)}."
            )
        if globs:
            raise ToolError("Give either type or glob, not both.")
        globs = [TYPES[given.type]]
    shows = given.output_mode == "content"
    around = given.around or 0
    return Job(
        pattern=given.pattern,
        mode=given.output_mode,
        ignore_case=given.ignore_case,
        multiline=given.multiline,
        before=(around if given.before is None else given.before) if shows else 0,
        after=(around if given.after is None else given.after) if shows else 0,
        globs=globs,
    )


def rows(found: SearchOutput) -> list[str]:
    lines = found.text.split("\n")
    # What follows the last line end is nothing, or a line that was cut.
    lines.pop()
    return lines


def content_line(given: GrepInput, ctx: ToolContext, where: SearchPlace, line: str) -> str:
    name, separator, rest = line.partition("\0")
    if not separator:
        return line
    digits = len(rest) - len(rest.lstrip("0123456789"))
    number, mark, text = rest[:digits], rest[digits : digits + 1], rest[digits + 1 :].rstrip("\r")
    if len(text) > LINE_MAX_CHARS:
        text = f"{text[:LINE_MAX_CHARS]}… [{len(text) - LINE_MAX_CHARS:,} more characters]"
    shown = display_path(ctx, where, name)
    return f"{shown}{mark}{number}{mark}{text}" if given.numbers else f"{shown}{mark}{text}"


class EntryRange(Struct, frozen=True, kw_only=True):
    """Which of the entries are wanted; `most` of 0 is all behind the first ones."""

    first: int
    most: int


def limited(
    entries: list[str], part: EntryRange, found: SearchOutput, what: str
) -> tuple[list[str], str]:
    end = part.first + part.most if part.most else None
    kept = entries[part.first : end]
    if len(kept) == len(entries) and not found.cut:
        return kept, ""
    total = f"{len(entries):,}{' or more' if found.cut else ''}"
    if not part.first:
        return kept, f"\n(The first {len(kept):,} of {total} {what}; head_limit sets how many.)"
    return kept, f"\n(From {part.first + 1:,} on, {len(kept):,} of {total} {what}.)"


def list_matching_files(names: list[str], most: EntryRange, found: SearchOutput) -> ToolOutcome:
    kept, note = limited(names, most, found, "files")
    return ToolOutcome(
        content=("\n".join(kept) or "No files match.") + note,
        tool_use_result={
            "mode": "files_with_matches",
            "numFiles": len(kept),
            "filenames": kept,
        },
        display=count_of(len(names), "file"),
    )


def content(lines: list[str], most: EntryRange, found: SearchOutput) -> ToolOutcome:
    kept, note = limited(lines, most, found, "lines")
    text = "\n".join(kept)
    return ToolOutcome(
        content=(text or "No lines match.") + note,
        tool_use_result={
            "mode": "content",
            "numFiles": 0,
            "filenames": [],
            "content": text,
            "numLines": len(kept),
        },
        display=count_of(len(lines), "line"),
    )


def counted(counts: list[tuple[str, int]], most: EntryRange, found: SearchOutput) -> ToolOutcome:
    kept, note = limited([f"{name}:{count}" for name, count in counts], most, found, "files")
    total = sum(count for _, count in counts)
    return ToolOutcome(
        content=("\n".join(kept) or "No lines match.") + note,
        tool_use_result={
            "mode": "count",
            "numFiles": len(kept),
            "filenames": [],
            "content": "\n".join(kept),
            "numMatches": total,
        },
        display=f"{total:,} in {count_of(len(counts), 'file')}",
    )
