"""The cost of file history around a shell command, in a repository of 5,000 files.

CPU time in one process. The command waits for the work before it; the work after it overlaps with
sending the result to the model.
"""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.measure import Figure, cpu_s
from clew.record.rewind.disk import Blobs
from clew.record.rewind.watch import CallWatch, Named

FILES = 5_000


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for kind in ("git", "plain"):
            work = home / kind
            make(work, is_repository=kind == "git")
            yield from around(kind, work, home / f"home-{kind}" / "clew" / "files")


def make(work: Path, *, is_repository: bool) -> None:
    for n in range(FILES):
        path = work / f"part{n % 25}" / f"folder{n % 250}" / f"file{n}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"number = {n}\n" * 60, "utf-8")
    (work / ".gitignore").write_text("*.pyc\nbuild/\n/dist\n.env\n", "utf-8")
    if is_repository:
        run = partial(subprocess.run, cwd=work, check=True, capture_output=True)
        run(["git", "init", "-q"])
        run(["git", "add", "-A"])
        # So that no file is as new as the index.
        (work / ".git" / "index").touch()


def around(kind: str, work: Path, kept: Path) -> Iterator[Figure]:
    blobs = Blobs(kept)
    watch = CallWatch(blobs)

    def before() -> None:
        watch.before(Named(), str(work), looks_everywhere=True)

    begin = time.process_time()
    before()
    first = (time.process_time() - begin) * 1000
    size = sum(size for _, size in blobs.each()) / 1e6
    note = f"{size:.1f} MB copied"
    yield Figure(name=f"{kind}: first command of a session", value=first, unit="ms", note=note)
    held = watch.before(Named(), str(work), looks_everywhere=True)
    watch.after(held)  # copies the files that the first command didn't wait for
    goal = 30.0
    yield Figure(
        name=f"{kind}: before, nothing changed", value=cpu_s(before) * 1000, unit="ms", at_most=goal
    )
    after = cpu_s(lambda: watch.after(held)) * 1000
    yield Figure(name=f"{kind}: after, nothing changed", value=after, unit="ms", at_most=goal)
    for path in list(work.rglob("*.py"))[::50]:
        path.write_text("changed", "utf-8")
    changed = cpu_s(lambda: watch.after(held), runs=1) * 1000
    yield Figure(name=f"{kind}: after, 100 files changed", value=changed, unit="ms")
