"""Runs a search as a process: ripgrep where there is one, clew's own program elsewhere."""

import asyncio
import heapq
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.agent.tools.base import ToolContext, ToolError, refuse_odd
from clew.agent.tools.search import VERSION_CONTROL, Job, braces, chooser
from clew.core.messages.encoding import encode
from clew.system.files import is_folder, is_there
from clew.system.process.output import ProcessOutput
from clew.system.process.run import Programs, run

SEARCH_TIMEOUT_S = 20.0
KEPT_BYTES = 4 << 20


class SearchPlace(Struct, frozen=True, kw_only=True):
    """Where a search happens: the folder it runs in, and the name it starts from there."""

    folder: Path
    name: str


@cache
def ripgrep() -> str | None:
    """On the PATH, or brought by the `search` extra beside this interpreter."""
    return shutil.which("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))


def place(ctx: ToolContext, path: str | None) -> SearchPlace:
    top = ctx.session.path(path) if path else Path(ctx.session.cwd)
    if is_folder(top):
        return SearchPlace(folder=top, name=".")
    if not is_there(top):
        raise ToolError(f"There is no file or folder {top}.")
    return SearchPlace(folder=top.parent, name=top.name)


def refused(globs: list[str]) -> list[str]:
    return [glob for whole in globs for glob in braces(whole) if glob.startswith("!")]


def plain_names(globs: list[str]) -> list[str]:
    """The globs as ripgrep's types, which look at a file's name alone; none if that is not enough.

    As ripgrep's globs they would bring back what .gitignore excludes.
    """
    chosen = [glob for whole in globs for glob in braces(whole) if not glob.startswith("!")]
    names = [glob.removeprefix("**/") for glob in chosen]
    return [] if any("/" in name for name in names) else names


# Asked to sort, ripgrep searches with one thread, so its results are sorted here, and it sorts only
# when there are too many to hold.
def ripgrep_command(program: str, job: Job, *, in_order: bool = False) -> list[str]:
    """`in_order` keeps it to one thread; without it what it finds comes as it is found."""
    command = [program, "--no-config", "--hidden", "--no-require-git", "--no-messages", "--null"]
    command += ["--color=never", "--no-ignore-global", "--no-ignore-dot", "--no-ignore-exclude"]
    for glob in (*refused(job.globs), *(f"!{name}" for name in VERSION_CONTROL)):
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
    return [*command, "--regexp", job.pattern, "--", job.path]


def own_command(job: Job) -> list[str]:
    # Where clew is, and where the libraries are: a bare interpreter knows of neither.
    places = [str(Path(__file__).parents[3]), str(Path(msgspec.__file__).parents[1])]
    program = (
        f"import sys; sys.path += {places!r}; "
        "from clew.agent.tools.search import main; sys.exit(main(sys.argv[1]))"
    )
    return [sys.executable, "-I", "-S", "-c", program, job.argument]


class SearchOutput(Struct, frozen=True, kw_only=True):
    """What a search printed, in full unless `cut`."""

    text: str
    cut: bool


async def search(
    ctx: ToolContext, where: SearchPlace, job: Job, program: str | None
) -> SearchOutput:
    for text in (job.pattern or "", *job.globs):
        refuse_odd(text, "A pattern")
    try:
        for glob in job.globs:
            braces(glob)
    except ValueError as error:
        raise ToolError(f"The pattern {error}.") from error
    job.path = where.name
    if program is None:
        text, cut = await printed(ctx, where, own_command(job))
    else:
        text, cut = await by_ripgrep(ctx, where, job, program)
        if not plain_names(job.globs):
            text = only_wanted(text, job, chooser(job.globs))
    if where.name == ".":
        # A file that the call itself names was judged by its name.
        text = only_wanted(text, job, cache(ctx.session.files.may_read(str(where.folder))))
    return SearchOutput(text=text, cut=cut)


async def by_ripgrep(
    ctx: ToolContext, where: SearchPlace, job: Job, program: str
) -> tuple[str, bool]:
    """All processors search, and what they found is put in order here; a flood is asked for in order."""
    text, cut = await printed(ctx, where, ripgrep_command(program, job))
    if cut:
        return await printed(ctx, where, ripgrep_command(program, job, in_order=True))
    return in_order(text, job, where.folder), False


async def printed(ctx: ToolContext, where: SearchPlace, command: list[str]) -> tuple[str, bool]:
    """What a search printed, and whether that is not all."""
    out, err = ProcessOutput(keep_bytes=KEPT_BYTES), ProcessOutput(keep_bytes=2000)
    finished = await run(
        ctx.session.shell.launcher,
        command,
        cwd=where.folder,
        env=ctx.session.shell.environment,
        stdout=out,
        stderr=err,
        timeout_s=SEARCH_TIMEOUT_S,
    )
    if finished.timed_out:
        raise ToolError(
            f"The search took more than {SEARCH_TIMEOUT_S:g} s. Narrow it: a path, a glob, a "
            "simpler pattern."
        )
    # 1 says that nothing was found, and is also how an interpreter ends that could not begin.
    if (finished.exit.code not in (0, 1) or err.size) and not out.size:
        raise ToolError(f"The search failed: {os.fsdecode(bytes(err.head)).strip()}")
    data = bytes(out.head) + (out.tail if not out.left_out else b"")
    return data.decode("utf-8", "replace"), bool(out.left_out)


def in_order(text: str, job: Job, folder: Path) -> str:
    """What was found, newest file first, or by path where it is lines or counts."""
    if job.pattern is None or job.mode == "files_with_matches":
        names = [name for name in text.split("\0") if name]
        newest = sorted(names, key=lambda name: (-modified_ns(folder / name), plain(name)))
        return "".join(f"{name}\0" for name in newest)
    by_name: dict[str, list[str]] = {}
    apart = False
    for line in text.split("\n")[:-1]:
        name, named, _ = line.partition("\0")
        if not named:
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
    """What was found in the files of some names."""
    if job.pattern is None or job.mode == "files_with_matches":
        return "".join(f"{name}\0" for name in text.split("\0") if name and wanted(plain(name)))
    kept: list[str] = []
    for line in text.split("\n"):
        name, named, rest = line.partition("\0")
        if named and wanted(plain(name)):
            kept.append(f"{name}\0{rest}\n")
        elif line == "--" and kept and kept[-1] != "--\n":
            kept.append("--\n")
    if kept and kept[-1] == "--\n":
        kept.pop()
    return "".join(kept)


def plain(name: str) -> str:
    return name.removeprefix("./")


def display_path(ctx: ToolContext, where: SearchPlace, name: str) -> str:
    """As short as can be and still right for the next call: relative to the session's folder."""
    path = os.path.normpath(where.folder / name)
    below = os.path.relpath(path, ctx.session.cwd)
    return path if below.startswith("..") else below


# The files of the folder by a part of their name: fast in a hundred thousand of them.


STALE_S = 20.0
PIECE = 2_000
MOST_HITS = 20_000
LISTING_MAX_BYTES = 64 << 20
LISTING_S = 30.0


class Names:
    """Names as they can be searched: each piece with its names, and the same in one small-letter text."""

    def __init__(self, names: Iterable[str]) -> None:
        listed = sorted(set(names))
        folders = {folder for name in listed for folder in folders_of(name)}
        every = [*sorted(folders), *listed]
        self.top = [name for name in every if "/" not in name.rstrip("/")]
        self._pieces = [
            (part, "\n".join(part).lower() + "\n")
            for part in (every[at : at + PIECE] for at in range(0, len(every), PIECE))
        ]
        self.count = len(every)

    def find(self, word: str, most: int) -> list[str]:
        """The best names for a word: where it stands whole, else where its letters come in order."""
        if not word:
            return self.top[:most]
        if word.endswith("/") or not word.strip("."):
            found = list(self._below(word))
            if found:
                return found[:most]
        wanted = word.lower()
        hits = list(self._holding(wanted))
        if len(hits) < most:
            hits += self._in_order(wanted)
        return heapq.nsmallest(most, set(hits), key=lambda name: rank(name, wanted))

    def _below(self, folder: str) -> Iterator[str]:
        """What lies directly in a folder."""
        for names, _ in self._pieces:
            for name in names:
                rest = name[len(folder) :] if name.startswith(folder) else ""
                if rest and "/" not in rest.rstrip("/"):
                    yield name

    def _holding(self, wanted: str) -> Iterator[str]:
        """Names in which the word stands whole."""
        seen = 0
        for names, text in self._pieces:
            line = begin = 0
            at = text.find(wanted)
            while at >= 0:
                line += text.count("\n", begin, at)
                yield names[line]
                seen += 1
                begin = text.index("\n", at)
                at = text.find(wanted, begin + 1)
            if seen > MOST_HITS:
                return

    def _in_order(self, wanted: str) -> Iterator[str]:
        """Names in which the letters of the word come one after another."""
        # Each letter is taken where it first comes and never given back: a name costs its length, once.
        letters = "".join(f"[^\n{re.escape(one)}]*+{re.escape(one)}" for one in wanted)
        whole = re.compile(f"^{letters}", re.M)
        seen = 0
        for names, text in self._pieces:
            if not all(one in text for one in wanted):
                continue
            line = begin = 0
            for match in whole.finditer(text):
                line += text.count("\n", begin, match.start())
                begin = match.start()
                yield names[line]
                seen += 1
            if seen > MOST_HITS:
                return


def rank(name: str, wanted: str) -> tuple[int, int, int, str]:
    """Small is good: the word begins the name, stands in it, stands in its path; then what is short."""
    small = name.lower()
    base = small.rstrip("/").rpartition("/")[2]
    kind = (
        0
        if base == wanted or small == wanted
        else 1
        if base.startswith(wanted)
        else 2
        if wanted in base
        else 3
        if wanted in small
        else 4
    )
    return kind, name.count("/"), len(name), name


def folders_of(name: str) -> Iterator[str]:
    at = name.find("/")
    while at >= 0:
        yield name[: at + 1]
        at = name.find("/", at + 1)


# A command that is asked with each letter; so many of what it prints are offered.
SUGGESTING_S = 5.0
MOST_SUGGESTED = 15


class FileNames:
    """Lists the files when first asked, and again beside the typing once the list is old; `suggests`
    gives a person's own command that finds them instead, if there is one."""

    def __init__(
        self,
        programs: Programs,
        *,
        with_ignored: Callable[[], bool],
        suggests: Callable[[], str | None],
    ) -> None:
        self._programs = programs
        self._with_ignored = with_ignored
        self._suggests = suggests
        self._names: Names | None = None
        self._listed_at = 0.0
        self._listing: asyncio.Lock = asyncio.Lock()

    async def find(self, word: str, most: int = 40) -> Sequence[str]:
        command = self._suggests()
        if command is not None:
            return await self._suggested(command, word, most)
        names = await self._current()
        return await asyncio.to_thread(names.find, word.removeprefix("./"), most)

    async def _suggested(self, command: str, word: str, most: int) -> Sequence[str]:
        printed = await self._programs.printed(
            ["sh", "-c", command],
            given=encode({"query": word}),
            timeout_s=SUGGESTING_S,
            env={"CLAUDE_PROJECT_DIR": self._programs.cwd},
        )
        lines = (os.fsdecode(line.strip()) for line in (printed or b"").split(b"\n"))
        return [line for line in lines if line and line.isprintable()][: min(most, MOST_SUGGESTED)]

    async def _current(self) -> Names:
        async with self._listing:
            if self._names is None or time.monotonic() - self._listed_at > STALE_S:
                found = await self._list()
                self._names = await asyncio.to_thread(Names, found)
                self._listed_at = time.monotonic()
            return self._names

    async def _list(self) -> list[str]:
        program = ripgrep()
        if program is None and self._with_ignored():
            return await asyncio.to_thread(lambda: list(everything(Path(self._programs.cwd))))
        argv = own_command(Job()) if program is None else self._by_ripgrep(program)
        printed = await self._programs.printed(
            argv, timeout_s=LISTING_S, most_bytes=LISTING_MAX_BYTES
        )
        names = (printed or b"").replace(b"\n", b"\0").split(b"\0")
        return [shown for name in names if name and (shown := os.fsdecode(name)).isprintable()]

    def _by_ripgrep(self, program: str) -> list[str]:
        command = [program, "--no-config", "--hidden", "--no-messages", "--null", "--files"]
        command += ["--no-ignore"] if self._with_ignored() else ["--no-require-git"]
        for name in VERSION_CONTROL:
            command += ["--glob", f"!{name}"]
        return command


def everything(top: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name not in VERSION_CONTROL]
        below = os.path.relpath(folder, top)
        for name in names:
            yield name if below == "." else f"{below}/{name}"
