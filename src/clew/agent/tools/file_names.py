"""Find files by a part of their name, quickly even among a hundred thousand files.

Every session has a finder, and a front end with a prompt uses it. The code that lists the files is
loaded with the first query.
"""

import asyncio
import heapq
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from clew.core.messages.encoding import encode
from clew.system.process.run import Programs

STALE_S = 20.0
PIECE = 2_000
MOST_HITS = 20_000
LISTING_MAX_BYTES = 64 << 20
LISTING_S = 30.0


class Names:
    """A searchable set of names, in chunks; each chunk is also kept as one lowercase string."""

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
        """Return the best matches.

        Names that contain the word come first, then names that contain its letters in order: those
        with the fewest and longest runs of letters before those with scattered letters.
        """
        if not word:
            return self.top[:most]
        if word.endswith("/") or not word.strip("."):
            names = list(self._below(word))
            if names:
                return names[:most]
        wanted = word.lower()
        hits = list(self._holding(wanted))
        if len(hits) < most:
            hits += self._in_order(wanted)
        return heapq.nsmallest(most, set(hits), key=lambda name: rank(name, wanted))

    def _below(self, folder: str) -> Iterator[str]:
        """Yield the names directly in a folder."""
        for names, _ in self._pieces:
            for name in names:
                rest = name[len(folder) :] if name.startswith(folder) else ""
                if rest and "/" not in rest.rstrip("/"):
                    yield name

    def _holding(self, wanted: str) -> Iterator[str]:
        """Yield the names that contain the word."""
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
        """Yield the names that contain the letters of the word in order."""
        # The possessive quantifier never gives a letter back, so each name is scanned once.
        letters = "".join(f"[^\n{re.escape(word)}]*+{re.escape(word)}" for word in wanted)
        pattern = re.compile(f"^{letters}", re.M)
        seen = 0
        for names, text in self._pieces:
            if not all(word in text for word in wanted):
                continue
            line = begin = 0
            for match in pattern.finditer(text):
                line += text.count("\n", begin, match.start())
                begin = match.start()
                yield names[line]
                seen += 1
            if seen > MOST_HITS:
                return


def rank(name: str, wanted: str) -> tuple[int, int, int, int, str]:
    """Return a sort key by kind of match, number of runs, depth, and length; smaller is better."""
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
    runs = 1 if kind < 4 else count_runs(small, wanted)
    return kind, runs, name.count("/"), len(name), name


def count_runs(name: str, wanted: str) -> int:
    """Return the number of contiguous runs into which the word must be split to match the name.

    Each run is made as long as possible, which is not always the best split, but takes only a few
    searches per name. If a split fails, the result is the number of letters.
    """
    runs = at = done = 0
    while done < len(wanted):
        end, begin = done + 1, name.find(wanted[done], at)
        if begin < 0:
            return len(wanted)
        while end < len(wanted) and (longer := name.find(wanted[done : end + 1], begin)) >= 0:
            begin, end = longer, end + 1
        at, done, runs = begin + end - done, end, runs + 1
    return runs


def folders_of(name: str) -> Iterator[str]:
    at = name.find("/")
    while at >= 0:
        yield name[: at + 1]
        at = name.find("/", at + 1)


# The user's own command runs whenever a letter is typed: its time limit, and how many of its lines
# are offered.
SUGGESTING_S = 5.0
MOST_SUGGESTED = 15


class FileNames:
    """The finder of a session: lists the files with the first query, and again when they are stale.

    `suggests` returns the user's own command for finding files, or None.
    """

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
            data=encode({"query": word}),
            timeout_s=SUGGESTING_S,
            env={"CLAUDE_PROJECT_DIR": self._programs.cwd},
        )
        lines = (os.fsdecode(line.strip()) for line in (printed or b"").split(b"\n"))
        return [line for line in lines if line and line.isprintable()][: min(most, MOST_SUGGESTED)]

    async def _current(self) -> Names:
        async with self._listing:
            if self._names is None or time.monotonic() - self._listed_at > STALE_S:
                names = await self._list()
                self._names = await asyncio.to_thread(Names, names)
                self._listed_at = time.monotonic()
            return self._names

    async def _list(self) -> list[str]:
        from clew.agent.tools.search import Job
        from clew.agent.tools.searching import find_ripgrep, own_command

        program = find_ripgrep()
        if program is None and self._with_ignored():
            return await asyncio.to_thread(lambda: list(expand_wrappers(Path(self._programs.cwd))))
        argv = own_command(Job()) if program is None else self._by_ripgrep(program)
        printed = await self._programs.printed(
            argv, timeout_s=LISTING_S, most_bytes=LISTING_MAX_BYTES
        )
        names = (printed or b"").replace(b"\n", b"\0").split(b"\0")
        return [path for name in names if name and (path := os.fsdecode(name)).isprintable()]

    def _by_ripgrep(self, program: str) -> list[str]:
        from clew.agent.tools.search import VERSION_CONTROL

        command = [program, "--no-config", "--hidden", "--no-messages", "--null", "--files"]
        command += ["--no-ignore"] if self._with_ignored() else ["--no-require-git"]
        for name in VERSION_CONTROL:
            command += ["--glob", f"!{name}"]
        return command


def expand_wrappers(top: Path) -> Iterator[str]:
    from clew.agent.tools.search import VERSION_CONTROL

    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name not in VERSION_CONTROL]
        below = os.path.relpath(folder, top)
        for name in names:
            yield name if below == "." else f"{below}/{name}"
