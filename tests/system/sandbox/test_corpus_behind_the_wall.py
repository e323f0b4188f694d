"""Every line of the corpus in the read-only sandbox, as if clew had misread all of them.

The programs that such a line must not start exist, and each tries to write, to connect and to show
a denied file. No reading of command lines takes part.
"""

import asyncio
import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from clew.system.process.spawn import Launcher
from clew.system.sandbox.box import Box, Kind
from clew.system.sandbox.policy import SandboxPolicy
from tests.fuzz import grammar
from tests.fuzz.world import CANARY, DENIED, STUB, FuzzWorld, put
from tests.system.sandbox.read_only import ESCAPED, KEY, OTHER_USER, SECRET, World, one, world
from tests.system.sandbox.walls import KINDS, can

# What the lines start. `tripwire` is in no table of any program.
PAYLOADS = ("npm", "make", "curl", "node", "docker", "pip", "ssh", "perl", "python3", "tripwire")
HARM = """#!/bin/bash
PATH=/usr/bin:/bin
for place in . {places}; do echo x >$place/{name}; done
rm -rf {base}/work/src
echo x >/dev/tcp/127.0.0.1/{port}
cat {base}/work/.env {base}/.ssh/id /proc/$PPID/environ
"""
BATCH = 50


@contextmanager
def project(user: int, places: str = "/tmp /var/tmp /dev/shm") -> Iterator[World]:
    """The world of the fuzzer, in one in which every change is seen."""
    with world(user) as here:
        made = FuzzWorld(here.base / "project")
        harm = HARM.format(
            base=made.root, port=here.port, places=f"{made.root} {places}", name=ESCAPED
        )
        for path in made.root.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.read_bytes() == STUB.encode():
                path.write_text(harm, "utf-8")
        for name in PAYLOADS:
            put(here.base / "bin" / name, harm)
            (here.base / "bin" / name).chmod(0o755)
        put(made.cwd / "file", "as it was\n")
        for path in here.base.rglob("*"):
            os.chown(path, user, user, follow_symlinks=False)
        here.work = made.cwd
        here.before = here.state()
        yield here


def policy(here: World) -> SandboxPolicy:
    shut = (
        here.base / ".ssh",
        here.work.parent / "home" / ".ssh",
        *(here.work / n for n in DENIED),
    )
    return SandboxPolicy(write=(), no_read=tuple(map(str, shut)), is_read_only=True)


def script(here: World, lines: list[str]) -> str:
    """Run each line in a bash of its own, the harmful programs first on its PATH."""
    commands = [f"timeout -k 1 2 bash -c {shlex.quote(line)} </dev/null" for line in lines]
    return "\n".join([f"PATH={here.base}/bin:$PATH", *commands])


async def find_harmful(kind: Kind, here: World, lines: list[str]) -> list[str]:
    """Return the lines that did harm; a batch that did is run again in halves."""
    launcher = Launcher()
    box = Box(policy(here), launcher, only=kind)
    try:
        pending = [lines[at : at + BATCH] for at in range(0, len(lines), BATCH)]
        found: list[str] = []
        while pending:
            part = pending.pop()
            printed = await one(box, launcher, here, script(here, part))
            state = here.state()
            if state == here.before and not any(s in printed for s in (CANARY, SECRET, KEY)):
                continue
            here.before = state
            if len(part) == 1:
                found += part
            else:
                middle = len(part) // 2
                pending += [part[:middle], part[middle:]]
        return found
    finally:
        box.close()
        await launcher.aclose()


def shows_history(name: str, line: str) -> bool:
    """Whether a line may show a denied file as git keeps it, which is no file to a sandbox (SECURITY.md)."""
    return name == "denied.txt" and "git" in line


@pytest.mark.laws
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("who", ["this user", "another user"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["readings.txt", "tables.txt", "tables_writing.txt", "denied.txt"])
def test_no_line_of_the_corpus_does_harm_in_the_sandbox(name: str, kind: Kind, who: str) -> None:
    user = OTHER_USER if who == "another user" and os.geteuid() == 0 else os.geteuid()
    if not can(kind):
        # That nothing runs then is held by test_walls.
        assert kind in KINDS
        return
    with project(user) as here:
        lines = [line for line in grammar.read_corpus(name) if not shows_history(name, line)]
        assert len(lines) > 300
        assert asyncio.run(find_harmful(kind, here, lines)) == []


def test_the_programs_of_the_corpus_do_harm_without_the_wall() -> None:
    """Otherwise nothing was shown above."""
    with project(os.geteuid(), places="") as here:
        done = subprocess.run(
            ["bash", "-c", script(here, ["npm publish", "tripwire"])],
            cwd=here.work,
            env={"PATH": "/usr/bin:/bin", "HOME": str(here.base)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        after = here.state()
        assert CANARY in done.stdout
        assert after["heard"] != here.before["heard"]
        assert (here.work / ESCAPED).exists()
        assert not (here.work / "src").exists()
