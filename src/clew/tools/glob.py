"""Glob: the files whose names fit a pattern, newest first."""

import time
from typing import Annotated

from msgspec import Meta, Struct

from clew.messages.counts import count_of
from clew.tools.base import Tool, ToolContext, ToolResult
from clew.tools.search import Job
from clew.tools.searching import display_path, place, ripgrep, search

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

    async def call(self, given: GlobInput, ctx: ToolContext) -> ToolResult:
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
        return ToolResult(
            content=content,
            tool_use_result={
                "filenames": files,
                "durationMs": round((time.perf_counter() - began) * 1000),
                "numFiles": len(files),
                "truncated": truncated,
            },
            display=count_of(len(names), "file"),
        )
