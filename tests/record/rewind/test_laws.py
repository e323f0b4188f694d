"""Rewind, then redo, is the identity on files and conversation; and a crash at any step of it loses nothing."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clew.record.rewind.disk import Blobs, blobs_dir
from clew.record.rewind.restore import START, carry_out, plan, plan_redo
from clew.record.rewind.watch import CallWatch, Named
from clew.record.transcript.examine import examine
from clew.record.transcript.load import load
from tests.record.transcript.session import Session, call, text
from tests.requirements import requirement

NAMES = ("a", "b", "d/a", "d/e/b", "odd \udcff", "l")


class Sitting:
    """A session whose turns change files for real; `states` are the files before each prompt and at the end."""

    def __init__(self, home: Path, random: Random) -> None:
        self.work = home / "work"
        for name in ("a", "d/a", "d/e/b"):
            (self.work / name).parent.mkdir(parents=True, exist_ok=True)
            (self.work / name).write_text(f"{name} of before", "utf-8")
        self.blobs = Blobs(blobs_dir(home / "config"))
        self._random = random
        self._watch = CallWatch(self.blobs)
        self._session = Session(home / "config", cwd=str(self.work))
        self.path = self._session.recorder.transcript
        self.prompts: list[str] = []
        self.states: list[dict[str, str]] = []

    def turn(self) -> None:
        recorder = self._session.recorder
        prompt = self._session.user(f"prompt {len(self.prompts)}", prompt_source="typed")
        self.prompts.append(prompt["uuid"])
        self.states.append(self.files())
        recorder.record([prompt])
        for _ in range(self._random.randint(0, 3)):
            answer = self._session.answer(call(name := f"toolu_{self._session.new_id()}"))
            recorder.record(answer)
            touched = self._change()
            changes, more = touched
            recorder.file_change(answer[0]["uuid"], name, [c.as_json() for c in changes], more)
            recorder.record(
                [self._session.result(name) | {"sourceToolAssistantUUID": answer[0]["uuid"]}]
            )
        recorder.record(self._session.answer(text("done")))

    def _change(self) -> Any:
        random = self._random
        path = self.work / random.choice(NAMES)
        named = Named(deep=frozenset({str(path)})) if random.random() < 0.5 else Named()
        before = self._watch.before(named, str(self.work), looks_everywhere=True)
        match random.choice(("write", "write", "remove", "link", "mode", "folder")):
            case "write":
                self._clear(path)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(random.randbytes(random.randint(0, 20)))
            case "remove":
                self._clear(path)
            case "link":
                self._clear(path)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to("a")
            case "mode" if path.is_file() and not path.is_symlink():
                path.chmod(random.choice((0o600, 0o644, 0o755)))
            case "folder":
                top = self.work / "d"
                other = self.work / f"d{random.randrange(9)}{len(self.states)}"
                if top.is_dir() and not os.path.lexists(other):
                    top.rename(other)
        return self._watch.after(before)

    def _clear(self, path: Path) -> None:
        for each in (path, *path.parents):
            if each == self.work:
                break
            if each.is_symlink() or each.is_file():
                each.unlink()
        if path.is_dir():
            shutil.rmtree(path)

    def end(self) -> None:
        self.states.append(self.files())
        self._session.close()

    def files(self) -> dict[str, str]:
        """Files and links; folders stand for nothing."""
        found = {}
        for path in sorted(self.work.rglob("*")):
            name = repr(str(path.relative_to(self.work)))
            if path.is_symlink():
                found[name] = f"-> {path.readlink()}"
            elif path.is_file():
                found[name] = f"{path.stat().st_mode & 0o777:o} {path.read_bytes()!r}"
        return found

    def conversation(self) -> list[str]:
        return [message["uuid"] for message in load(self.path).messages]

    def said(self) -> list[str]:
        return [uuid for uuid in self.conversation() if uuid in self.prompts]


@contextmanager
def sitting(seed: int) -> Iterator[tuple[Sitting, Random]]:
    random = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        made = Sitting(Path(folder), random)
        for _ in range(random.randint(1, 4)):
            made.turn()
        made.end()
        yield made, random


def hold_the_law(seed: int) -> None:
    with sitting(seed) as (made, random):
        whole, files = made.conversation(), made.files()
        for _ in range(random.randint(1, 3)):
            n = random.randrange(len(made.prompts))
            uuid = START if n == 0 and random.random() < 0.3 else made.prompts[n]
            planned = plan(made.path, uuid, made.blobs, files=True, conversation=True)
            assert planned.is_clear, (seed, planned)
            carry_out(planned, made.blobs)
            assert made.files() == made.states[n], seed
            assert made.said() == made.prompts[:n], seed
            carry_out(plan_redo(made.path, made.blobs), made.blobs)
            assert (made.files(), made.conversation()) == (files, whole), seed
        assert not examine(made.path).problems, seed


@pytest.mark.no_cover
@requirement("R200")
def test_a_redo_takes_back_all_of_a_rewind() -> None:
    for seed in range(60):
        hold_the_law(seed)


@pytest.mark.laws
@pytest.mark.parametrize("start", range(1_000, 5_000, 250))
def test_the_same_for_very_many(start: int) -> None:
    for seed in range(start, start + 250):
        hold_the_law(seed)


def test_rewinds_of_rewinds_are_taken_back_one_by_one() -> None:
    with sitting(7) as (made, random):
        stack = [(made.files(), made.conversation())]
        for _ in range(4):
            uuid = random.choice(made.prompts)
            planned = plan(made.path, uuid, made.blobs, files=True, conversation=True)
            carry_out(planned, made.blobs)
            stack.append((made.files(), made.conversation()))
        while len(stack) > 1:
            stack.pop()
            carry_out(plan_redo(made.path, made.blobs), made.blobs)
            assert (made.files(), made.conversation()) == stack[-1]


# The rewind of a session, ended without a word at the n-th thing it does to the disk.
CRASHING = """
import os, sys
from pathlib import Path
from clew.record.rewind.disk import Blobs
from clew.record.rewind.restore import carry_out, plan

path, uuid, blobs, left = Path(sys.argv[1]), sys.argv[2], Blobs(Path(sys.argv[3])), int(sys.argv[4])
STEPS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.chmod"}

def watch(event, args):
    global left
    if event in STEPS or (event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR)):
        left -= 1
        if left < 0:
            os._exit(9)

planned = plan(path, uuid, blobs, files=True, conversation=True)
sys.addaudithook(watch)
carry_out(planned, blobs)
"""


def crashed(made: Sitting, uuid: str, step: int) -> bool:
    """Whether a rewind was ended at a step; it comes to its end where it has fewer."""
    where = str(blobs_dir(made.work.parent / "config"))
    done = subprocess.run(
        [sys.executable, "-c", CRASHING, str(made.path), uuid, where, str(step)],
        capture_output=True,
        check=False,
        timeout=60,
        env=os.environ,
    )
    assert done.returncode in (0, 9), done.stderr
    return done.returncode == 9


def survives_every_step(seed: int, stride: int) -> int:
    step, ends = 0, False
    while not ends:
        with sitting(seed) as (made, _):
            whole, files = made.conversation(), made.files()
            ends = not crashed(made, made.prompts[0], step)
            assert not examine(made.path).problems
            assert made.conversation() in (whole, []), (seed, step)
            planned = plan(made.path, made.prompts[0], made.blobs, files=True, conversation=True)
            assert planned.is_clear, (seed, step, planned)
            carry_out(planned, made.blobs)
            assert (made.files(), made.said()) == (made.states[0], []), (seed, step)
            carry_out(plan_redo(made.path, made.blobs), made.blobs)
            if (made.files(), made.conversation()) != (files, whole):
                carry_out(plan_redo(made.path, made.blobs), made.blobs)
            assert (made.files(), made.conversation()) == (files, whole), (seed, step)
        step += stride
    return step


@pytest.mark.crash
@pytest.mark.parametrize("seed", [22, 25, 26, 31, 35, 39, 41, 51])
def test_a_crash_at_every_step_of_a_rewind_loses_nothing(seed: int) -> None:
    assert survives_every_step(seed, 1) > 3


def test_a_crash_at_some_steps_of_a_rewind_loses_nothing() -> None:
    assert survives_every_step(51, 5) > 3
