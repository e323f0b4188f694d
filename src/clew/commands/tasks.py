"""`clew tasks`: the commands that people kept beyond the end of clew: listed, read, ended."""

import argparse
import os
import time
from pathlib import Path
from typing import Any

from clew.commands.sessions.output import home, moment, say, say_json
from clew.core.messages.errors import UserError
from clew.record.kept_commands import KeptRecord, call_off, found, read
from clew.record.transcript.paths import own_dir
from clew.system.clock import here
from clew.system.command_groups import Group, GroupWord, argument, switch
from clew.system.config.keys import in_environment
from clew.system.config.mask import without
from clew.system.files import only_files

SHOWN_BYTES = 64 << 10
# So many are named where another was meant.
NAMED = 20
ENDS_WITHIN_S = 5.0
LOOK_S = 0.02
UNWATCHED = "running, and what watched it was killed: how it ends will not be known"


def main(argv: list[str]) -> int:
    folder = own_dir(home()) / "kept"
    words = ["list", *argv] if argv in ([], ["--json"]) else argv
    return parser().carry_out(words, lambda options: options.run(folder, options))


def parser() -> Group:
    task, as_json = argument("task", metavar="TASK"), switch("--json", "as JSON")
    made = Group(
        prog="clew tasks",
        description="Commands that go on without clew, because somebody kept them (/tasks keep ID). "
        "A TASK is SESSION/ID as list shows it, or its ID where only one has it.",
    )
    return made.add_words(
        {
            "list": GroupWord(
                run_list,
                as_json,
                line="those that run, and those that ended and nobody has heard of yet",
            ),
            "show": GroupWord(run_show, task, as_json, line="what one is, and what it printed"),
            "stop": GroupWord(run_stop, task, as_json, line="end one, with everything it started"),
        }
    )


def run_list(folder: Path, options: argparse.Namespace) -> None:
    kept = sorted(found(folder), key=lambda one: one.about.kept_at, reverse=True)
    if options.json:
        say_json([row(one) for one in kept])
    elif not kept:
        say("nothing was kept, or all of it has ended and was heard of")
    for one in () if options.json else kept:
        say(f"{one.name}  {state(one)}  {one.about.title}  in {one.about.cwd}")


def run_show(folder: Path, options: argparse.Namespace) -> None:
    one = chosen(folder, options.task)
    said, before = ending_of(one)
    if options.json:
        say_json({**row(one), "output": said})
        return
    about = one.about
    for name, value in (
        ("task", one.name),
        ("state", state(one)),
        ("command", about.command),
        ("folder", about.cwd),
        ("process", str(about.pid) if one.is_running else ""),
        ("kept", here(about.kept_at)),
        ("output", about.file),
        ("go on", f"clew --resume {about.session_id}"),
    ):
        if value:
            say(f"{name:<8} {value}")
    say(f"\n... {before:,} bytes before\n{said}" if before else f"\n{said}".rstrip("\n"))


def run_stop(folder: Path, options: argparse.Namespace) -> None:
    one = chosen(folder, options.task)
    was_running = one.is_running
    now: KeptRecord | None = one
    deadline = time.monotonic() + ENDS_WITHIN_S
    if was_running:
        call_off(one)
    while now is not None and now.is_running:
        if time.monotonic() > deadline:
            raise UserError(f"{one.name} was told to end and has not yet")
        time.sleep(LOOK_S)  # its end is a lock that another process lets go of: nobody says so
        now = read(one.path)
    last = one if now is None else now
    if options.json:
        say_json(row(last))
    else:
        say(f"{one.name}: {'stopped' if was_running else f'it had ended already: {state(last)}'}")


def chosen(folder: Path, name: str) -> KeptRecord:
    there = list(found(folder))
    meant = [one for one in there if name in (one.name, one.about.task_id, full_name(one))]
    if len(meant) == 1:
        return meant[0]
    names = [one.name for one in meant or there]
    more = f" and {len(names) - NAMED:,} more: clew tasks" if len(names) > NAMED else ""
    raise UserError(
        f"{'several tasks are' if meant else 'no task is'} called {name}; there are: "
        f"{', '.join(names[:NAMED]) or 'none'}{more}"
    )


def full_name(one: KeptRecord) -> str:
    return f"{one.about.session_id}/{one.about.task_id}"


def state(one: KeptRecord) -> str:
    """How it stands, by the kernel and its watcher."""
    if one.is_running:
        return "running" if one.is_watched else UNWATCHED
    if one.end is None:
        return "ended, and nobody saw how"
    ended, at = one.end.exit, here(one.end.ended_at, seconds=True)
    how = f"by {ended.signal}" if ended.signal else f"with code {ended.code}"
    return f"{'stopped' if one.end.called_off else 'ended'} {how} at {at}"


def ending_of(one: KeptRecord) -> tuple[str, int]:
    """The end of what it printed, and how much stands before it."""
    try:
        with open(one.about.file, "rb", opener=only_files) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - SHOWN_BYTES))
            said = file.read(SHOWN_BYTES).decode("utf-8", "replace")
            return without(said, in_environment(os.environ)), max(0, size - SHOWN_BYTES)
    except OSError as error:
        return f"(what it printed cannot be read: {error.strerror})", 0


def row(one: KeptRecord) -> dict[str, Any]:
    about = one.about
    return {
        "task": one.name,
        "sessionId": about.session_id,
        "taskId": about.task_id,
        "kind": about.kind,
        "title": about.title,
        "command": about.command,
        "cwd": about.cwd,
        "file": about.file,
        "isRunning": one.is_running,
        "isWatched": one.is_watched,
        "isCalledOff": one.end is not None and one.end.called_off,
        "exitCode": None if one.end is None else one.end.exit.code,
        "signal": None if one.end is None else one.end.exit.signal,
        "keptAt": moment(about.kept_at),
        "endedAt": None if one.end is None else moment(one.end.ended_at),
    }
