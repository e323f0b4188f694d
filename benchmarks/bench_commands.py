"""Commands that don't use a model, the session list, and file completion.

All are wall times, because a user waits for them: each command as a host receives its result in one
session; the rows for 10,000 sessions of one folder; a key in `@` completion among 100,000 files.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tests.record.library.many import generate

from benchmarks.measure import Figure
from clew.agent.tools.file_names import FileNames
from clew.commands.slash.table import BUILTIN
from clew.fronts.render.theme import choose_theme
from clew.fronts.terminal.session_picker import FIRST, SessionChooser
from clew.record.library.listing import list_newest_first
from clew.system.process.run import Programs
from clew.testing.server import serving

RUNS = 5
HELLO = {"scenario": 1, "answers": [{"text": "Hello.", "times": "always"}]}
HOST = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")
# Commands that use a model, another address or the user, or end the measured session.
WITH_MODEL = {"compact", "goal", "loop", "remember"}
ENDS = {"clear", "exit", "fork"}
ARGUMENTS = {"doctor": "--offline", "search": "begin", "rename": "A title"}
FILES, SESSIONS = 100_000, 10_000
FOUND = ("", "t", "task", "task 77", "random import self", "nowhere at all")
TYPED = ("f", "fi", "file", "file7", "file77", "f777", "mod3/file99", "nowhereatall", "xz")


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        yield from commands(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        yield from picker(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(completion(Path(folder)))


class Host:
    """A clew process that is controlled line by line."""

    def __init__(self, home: Path, url: str) -> None:
        work = home / "work"
        work.mkdir()
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CLEW_CONFIG_DIR": str(home / "config"),
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "test-key",
        }
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-m", "clew", *HOST],
            cwd=work,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def answered_ms(self, text: str) -> float:
        """Return the time until the result of a prompt."""
        if self._child.stdin is None or self._child.stdout is None:
            raise RuntimeError("a host speaks through pipes")
        frame = {"type": "user", "message": {"role": "user", "content": text}}
        begin_s = time.perf_counter()
        self._child.stdin.write(json.dumps(frame).encode() + b"\n")
        self._child.stdin.flush()
        for line in self._child.stdout:
            said: dict[str, Any] = json.loads(line)
            if said["type"] == "result":
                return (time.perf_counter() - begin_s) * 1000
        raise RuntimeError(f"clew ended at {text}")

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()


def commands(home: Path) -> Iterator[Figure]:
    asked = sorted({one.name for one in BUILTIN} - WITH_MODEL - ENDS)
    with serving(HELLO) as server:
        host = Host(home, server.url)
        try:
            host.answered_ms("begin the work")
            requests = len(server.requests)
            took: dict[str, list[float]] = {}
            for turn in range(RUNS):
                for name in asked:
                    words = ARGUMENTS.get(name, "")
                    if name == "export":
                        words = f"page{turn}.html"
                    elif name == "bug-report":
                        words = f"report{turn}.md"
                    took.setdefault(name, []).append(host.answered_ms(f"/{name} {words}".strip()))
            if len(server.requests) != requests:
                raise RuntimeError("one of the commands asked the model")
        finally:
            host.close()
    first = sorted(((spent[0], name) for name, spent in took.items()), reverse=True)
    best = sorted(((min(spent), name) for name, spent in took.items()), reverse=True)
    for told, found in (("the first time", first), (f"the best of {RUNS}", best)):
        yield Figure(
            name=f"slowest of {len(asked)} commands, {told}",
            value=found[0][0],
            unit="ms",
            at_most=50,
            note=", ".join(f"/{name} {spent:.0f}" for spent, name in found[:4]),
        )


def picker(home: Path) -> Iterator[Figure]:
    generate(home, sessions=SESSIONS, projects=1, entries=6, words=60)

    def rows(most: int) -> float:
        begin_s = time.perf_counter()
        found = list(islice(list_newest_first(home, "/work/p0", everywhere=False), most))
        if len(found) != most:
            raise RuntimeError(f"{len(found)} of {most} rows")
        return time.perf_counter() - begin_s

    spent = [rows(FIRST) for _ in range(RUNS)]
    yield Figure(
        name=f"--resume over {SESSIONS:,} sessions: the first rows ({FIRST})",
        value=min(spent),
        unit="s",
        at_most=0.15,
        note=f"the first time: {spent[0]:.3f} s",
    )
    yield Figure(
        name=f"--resume over {SESSIONS:,} sessions: all rows, while typing",
        value=rows(SESSIONS),
        unit="s",
    )
    yield asyncio.run(finding(home))


async def finding(home: Path) -> Figure:
    """Measure a character in the search of the list, including the display."""
    dialog = SessionChooser("Resume session", everywhere=False)
    dialog.add(list(list_newest_first(home, "/work/p0", everywhere=False)))
    theme = choose_theme("", {})
    slowest = []
    for words in FOUND:
        spent = []
        for _ in range(RUNS):
            dialog.field.text = words
            begin_s = time.perf_counter()
            dialog.typed()
            dialog.lines(80, 22, theme)
            spent.append((time.perf_counter() - begin_s) * 1000)
        slowest.append((min(spent), words))
    slowest.sort(reverse=True)
    return Figure(
        name=f"slowest character in the search among {SESSIONS:,} sessions",
        value=slowest[0][0],
        unit="ms",
        at_most=30,
        note=", ".join(f"{words!r} {spent:.0f}" for spent, words in slowest),
    )


async def completion(work: Path) -> list[Figure]:
    for part in range(FILES // 100):
        folder = work / f"part{part % 20}" / f"mod{part}"
        folder.mkdir(parents=True)
        for n in range(100):
            (folder / f"file{part * 100 + n}.py").touch()
    files = FileNames(Programs(str(work), os.environ), with_ignored=bool, suggests=lambda: None)
    begin_s = time.perf_counter()
    await files.find("f")
    first_s = time.perf_counter() - begin_s
    slowest = []
    for word in TYPED:
        spent = []
        for _ in range(RUNS):
            begin_s = time.perf_counter()
            await files.find(word)
            spent.append((time.perf_counter() - begin_s) * 1000)
        slowest.append((min(spent), word))
    slowest.sort(reverse=True)
    return [
        Figure(name=f"listing {FILES:,} files, once, while typing", value=first_s, unit="s"),
        Figure(
            name="slowest key in @ completion",
            value=slowest[0][0],
            unit="ms",
            at_most=30,
            note=", ".join(f"@{word} {spent:.0f}" for spent, word in slowest),
        ),
    ]
