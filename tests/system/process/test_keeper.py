"""The keeper stays small: its size is what every fork of it costs."""

import subprocess
import sys

from clew.system.process.spawn import SOURCE, keeper_command

HEAVY = {"asyncio", "ctypes", "json", "logging", "msgspec", "pathlib", "re", "subprocess", "typing"}


def test_the_keeper_loads_next_to_nothing() -> None:
    program = (
        f"import sys; sys.path.append({str(SOURCE)!r}); import clew.system.process.watcher; "
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [*keeper_command(adopts=True)[:-1], program],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    loaded = set(done.stdout.split())
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("clew.")} == {
        "clew.system",
        "clew.system.process",
        "clew.system.process.walls",
        "clew.system.process.watcher",
    }


def test_the_keeper_is_this_interpreter_apart_from_its_environment() -> None:
    assert keeper_command(adopts=True)[:3] == [sys.executable, "-I", "-S"]
