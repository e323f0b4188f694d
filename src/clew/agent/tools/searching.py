"""Run a search as a process: ripgrep if it is installed, otherwise clew's own program."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.agent.tools.base import ToolContext, ToolError, locate, refuse_odd
from clew.agent.tools.sandboxed import confine_search
from clew.agent.tools.search import VERSION_CONTROL, Job, expand_braces, make_chooser
from clew.core.regex import lazy_pattern
from clew.system.files import is_folder, is_there, open_without_links
from clew.system.process.output import ProcessOutput
from clew.system.process.programs import find_own_program
from clew.system.process.run import run

SEARCH_TIMEOUT_S = 20.0
KEPT_BYTES = 4 << 20
# How ripgrep begins a line of its results if it reads the standard input.
STDIN = lazy_pattern(r"(?m)^<stdin>\0")


class SearchPlace(Struct, frozen=True, kw_only=True):
    """The place to search: a working folder, and a name in it (`.` for the folder itself).

    `folder` is a real path, without links. `shown` is the folder as the results show it.
    """

    folder: Path
    name: str
    shown: Path

    @property
    def is_file(self) -> bool:
        return self.name != "."


@cache
def find_ripgrep() -> str | None:
    """Return the path of ripgrep, or None if it is not installed.

    It is on the PATH or, if the `search` extra installed it, next to this interpreter.
    """
    return find_own_program("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))


def place(ctx: ToolContext, path: str | None) -> SearchPlace:
    named = ctx.session.path(path or ".")
    top = locate(named)
    if is_folder(top):
        return SearchPlace(folder=top, name=".", shown=named)
    if not is_there(top):
        raise ToolError(f"File or folder not found: {named}.")
    return SearchPlace(folder=top.parent, name=top.name, shown=named)


def list_exclusions(globs: list[str]) -> list[str]:
    return [glob for pattern in globs for glob in expand_braces(pattern) if glob.startswith("!")]


def plain_names(globs: list[str]) -> list[str]:
    """Return the globs as ripgrep types, which match only file names; [] if any has a folder.

    Globs that begin with `!` are left out. As ripgrep globs, the others would include files that
    .gitignore excludes.
    """
    chosen = [
        glob for pattern in globs for glob in expand_braces(pattern) if not glob.startswith("!")
    ]
    names = [glob.removeprefix("**/") for glob in chosen]
    return [] if any("/" in name for name in names) else names


# ripgrep uses only one thread if it has to sort. Therefore results are sorted here, and ripgrep
# sorts only when the results don't fit into memory.
def ripgrep_command(program: str, job: Job, *, in_order: bool = False) -> list[str]:
    """Return the ripgrep command for a search or a listing.

    With `in_order`, ripgrep sorts the results, using one thread; otherwise they are unordered.
    """
    command = [program, "--no-config", "--hidden", "--no-require-git", "--no-messages", "--null"]
    command += ["--color=never", "--no-ignore-global", "--no-ignore-dot", "--no-ignore-exclude"]
    for glob in (*list_exclusions(job.globs), *(f"!{name}" for name in VERSION_CONTROL)):
        command += ["--glob", glob]
    for name in plain_names(job.globs):
        command += ["--type-add", f"wanted:{name}", "--type=wanted"]
    if job.pattern is None:
        newest = ["--sortr=modified"] if in_order else []
        return [*command, "--files", *newest, "--", job.path]
    if job.mode == "files_with_matches":
        command += ["--files-with-matches", *(["--sortr=modified"] if in_order else [])]
    else:
        command += ["--with-filename", "--no-heading", "--line-number"]
        command += ["--sort=path"] if in_order else []
    if job.mode == "count":
        command.append("--count-matches" if job.multiline else "--count")
    if job.before or job.after:
        command += [f"--before-context={job.before}", f"--after-context={job.after}"]
    if job.ignore_case:
        command.append("--ignore-case")
    if job.multiline:
        command += ["--multiline", "--multiline-dotall"]
    return [*command, "--regexp", job.pattern, "--", "-" if job.is_file else job.path]


def own_command(job: Job) -> list[str]:
    # A bare interpreter finds neither clew nor its libraries without these.
    places = [str(Path(__file__).parents[3]), str(Path(msgspec.__file__).parents[1])]
    program = (
        f"import sys; sys.path += {places!r}; "
        "from clew.agent.tools.search import main; sys.exit(main(sys.argv[1]))"
    )
    return [sys.executable, "-I", "-S", "-c", program, job.argument]


class SearchOutput(Struct, frozen=True, kw_only=True):
    """A search's output, complete unless `cut` is set."""

    text: str
    cut: bool


async def search(
    ctx: ToolContext, where: SearchPlace, job: Job, program: str | None
) -> SearchOutput:
    for text in (job.pattern or "", *job.globs):
        refuse_odd(text, "A pattern")
    try:
        for glob in job.globs:
            expand_braces(glob)
    except ValueError as error:
        raise ToolError(f"Invalid pattern: {error}.") from error
    job.path, job.is_file = where.name, where.is_file
    if program is None:
        text, cut = await run_search(ctx, where, job, own_command(job))
    else:
        text, cut = await by_ripgrep(ctx, where, job, program)
        if not plain_names(job.globs):
            text = only_wanted(text, job, make_chooser(job.globs))
    if not where.is_file:
        # Not needed for a file that the call itself names: the permission check covered it.
        text = only_wanted(text, job, cache(ctx.session.files.may_read(str(where.folder))))
    return SearchOutput(text=text, cut=cut)


async def by_ripgrep(
    ctx: ToolContext, where: SearchPlace, job: Job, program: str
) -> tuple[str, bool]:
    """Search with all processors and sort the results here; if they don't fit, let ripgrep sort."""
    text, cut = await run_search(ctx, where, job, ripgrep_command(program, job))
    if where.is_file:
        return STDIN.sub(lambda _: f"{where.name}\0", text), cut
    if cut:
        return await run_search(ctx, where, job, ripgrep_command(program, job, in_order=True))
    return in_order(text, job, where.folder), False


async def run_search(
    ctx: ToolContext, where: SearchPlace, job: Job, command: list[str]
) -> tuple[str, bool]:
    """Run a search; return its output, and whether it was cut."""
    out, err = ProcessOutput(keep_bytes=KEPT_BYTES), ProcessOutput(keep_bytes=2000)
    shell = ctx.session.shell
    # A listing reads no files. An open file may be a secret that the user lets the model read.
    sandbox = None if where.is_file or job.pattern is None else shell.sandbox
    with opened_file(where) as descriptors:
        async with confine_search(
            sandbox, command, str(where.folder), shell.environment
        ) as confinement:
            finished = await run(
                shell.launcher,
                confinement.argv,
                cwd=where.folder,
                env=confinement.environment,
                stdout=out,
                stderr=err,
                descriptors=descriptors,
                walls=confinement.walls,
                timeout_s=SEARCH_TIMEOUT_S,
                has_no_links=True,
            )
    if finished.timed_out:
        raise ToolError(
            f"The search took more than {SEARCH_TIMEOUT_S:g} s.",
            "Narrow it with a path, a glob or a simpler pattern.",
        )
    # Exit code 1 means no match, but an interpreter that can't start exits with 1 too.
    if (finished.exit.code not in (0, 1) or err.size) and not out.size:
        raise ToolError(f"The search failed: {os.fsdecode(bytes(err.head)).strip()}")
    data = bytes(out.head) + (out.tail if not out.left_out else b"")
    return data.decode("utf-8", "replace"), bool(out.left_out)


@contextmanager
def opened_file(where: SearchPlace) -> Iterator[dict[int, int]]:
    """Open the file to search as the standard input of the search.

    ripgrep itself would follow a link that has replaced the file since the permission check.
    """
    if not where.is_file:
        yield {}
        return
    file = open_without_links(
        str(where.folder / where.name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    )
    try:
        yield {0: file}
    finally:
        os.close(file)


def in_order(text: str, job: Job, folder: Path) -> str:
    """Sort the results: files by time, newest first; lines and counts by path."""
    if job.pattern is None or job.mode == "files_with_matches":
        names = [name for name in text.split("\0") if name]
        newest = sorted(names, key=lambda name: (-modified_ns(folder / name), plain(name)))
        return "".join(f"{name}\0" for name in newest)
    by_name: dict[str, list[str]] = {}
    apart = False
    for line in text.split("\n")[:-1]:
        name, separator, _ = line.partition("\0")
        if not separator:
            apart = True
            continue
        lines = by_name.setdefault(name, [])
        if apart and lines:
            lines.append("--\n")
        apart = False
        lines.append(f"{line}\n")
    between = "--\n" if job.before or job.after else ""
    ordered = sorted(by_name, key=lambda name: plain(name).split("/"))
    return between.join("".join(by_name[name]) for name in ordered)


def modified_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def only_wanted(text: str, job: Job, wanted: Callable[[str], bool]) -> str:
    """Return the results from the wanted files."""
    if job.pattern is None or job.mode == "files_with_matches":
        return "".join(f"{name}\0" for name in text.split("\0") if name and wanted(plain(name)))
    kept_lines: list[str] = []
    for line in text.split("\n"):
        name, separator, rest = line.partition("\0")
        if separator and wanted(plain(name)):
            kept_lines.append(f"{name}\0{rest}\n")
        elif line == "--" and kept_lines and kept_lines[-1] != "--\n":
            kept_lines.append("--\n")
    if kept_lines and kept_lines[-1] == "--\n":
        kept_lines.pop()
    return "".join(kept_lines)


def plain(name: str) -> str:
    return name.removeprefix("./")


def display_path(ctx: ToolContext, where: SearchPlace, name: str) -> str:
    """Return the shortest path that the next call can use.

    It is relative to the session's folder if the file is below that folder.
    """
    path = os.path.normpath(where.shown if where.is_file else where.shown / name)
    below = os.path.relpath(path, ctx.session.cwd)
    return path if below.startswith("..") else below
