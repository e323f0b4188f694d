"""All sessions: listing, searching, indexing and exporting 10,000 of them, about a gigabyte.

CPU time in one process, best of several runs. The search without an index is wall time, because a
second program does the work. The start of a `clew` process is not included (see bench_startup).
"""

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from tests.record.library.many import generate

from benchmarks.bench_transcript import _session
from benchmarks.measure import Figure, cpu_s
from clew.record.exchange.export import export_session
from clew.record.library.database import forget
from clew.record.library.indexing import update
from clew.record.library.listing import list_newest_first
from clew.record.library.search import Scope, ripgrep, search
from clew.record.library.words import query_of

SESSIONS = 10_000


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        made = generate(home, sessions=SESSIONS, projects=50, entries=38, words=330)
        size_mb = sum(path.stat().st_size for path in made) / 1e6
        yield Figure(name="sessions, MB", value=size_mb, unit="MB")
        yield from _listing(home)
        yield from _searching(home, size_mb)
    yield from _exporting()


def _listing(home: Path) -> Iterator[Figure]:
    def first_rows() -> None:
        rows = list(islice(list_newest_first(home, "/work", everywhere=True), 50))
        if len(rows) != 50:
            raise RuntimeError("fifty rows were asked for")

    begin = time.process_time()
    first_rows()
    cold = time.process_time() - begin
    yield Figure(name="first 50 rows of 10,000, first time", value=cold, unit="s", at_most=0.3)
    warm = cpu_s(first_rows)
    yield Figure(name="first 50 rows of 10,000, again", value=warm, unit="s", at_most=0.05)


def _searching(home: Path, size_mb: float) -> Iterator[Figure]:
    words = ("subprocess", '"task number 4321"', "nowhereatall")

    def by_reading(word: str) -> float:
        begin = time.perf_counter()
        search(home, query_of(word), Scope(), limit=20, use_index=False)
        return time.perf_counter() - begin

    for word in words:
        yield Figure(
            name=f"search {word} without index{'' if ripgrep() else ' (no ripgrep)'}, wall",
            value=min(by_reading(word) for _ in range(3)),
            unit="s",
            at_most=0.6,
        )
    forget(home)
    begin = time.process_time()
    update(home)
    spent = time.process_time() - begin
    yield Figure(name="building the index", value=size_mb / spent, unit="MB/s", at_least=30)
    for word in words:
        spent = cpu_s(partial(search, home, query_of(word), Scope(), limit=20))
        yield Figure(name=f"search {word} with the index", value=spent, unit="s", at_most=0.1)


def _exporting() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = _session(Path(folder), 20)
        spent = cpu_s(lambda: export_session(path, "html", None, subagents=True), runs=3)
        yield Figure(name="html of a 20 MB session", value=spent, unit="s", at_most=2)
