"""`clew tasks`: list, show and stop background commands that keep running after clew has exited."""

import argparse
import os
import time
from pathlib import Path
from typing import Any

from clew.commands.sessions.output import find_home, parse_moment, say, say_json
from clew.core.messages.errors import UserError
from clew.record.kept_commands import KeptRecord, call_off, find_records, read
from clew.record.transcript.paths import get_own_dir
from clew.system.clock import format_local
from clew.system.command_groups import Group, GroupWord, argument, switch
from clew.system.config.keys import in_environment
from clew.system.config.mask import remove_secrets
from clew.system.files import open_only_files

SHOWN_BYTES = 64 << 10
# The most task names in an error message.
NAMED = 20
ENDS_WITHIN_S = 5.0
LOOK_S = 0.02
UNWATCHED = "running, but its exit status will be unknown because its watcher was killed"


def main(argv: list[str]) -> int:
    folder = get_own_dir(find_home()) / "kept"
    words = ["list", *argv] if argv in ([], ["--json"]) else argv
    return parser().carry_out(words, lambda options: options.run(folder, options))


def parser() -> Group:
    task, as_json = argument("task", metavar="TASK"), switch("--json", "Print JSON")
    group = Group(
        prog="clew tasks",
        description="Manage background commands that keep running after clew exits "
        "(/tasks keep ID). "
        "TASK is SESSION/ID as shown by list, or the ID alone if it is unique.",
    )
    return group.add_words(
        {
            "list": GroupWord(
                run_list,
                as_json,
                line="List running tasks, and ended tasks not reported yet",
            ),
            "show": GroupWord(run_show, task, as_json, line="Show a task and its output"),
            "stop": GroupWord(run_stop, task, as_json, line="Stop a task and all its processes"),
        }
    )


def run_list(folder: Path, options: argparse.Namespace) -> None:
    records = sorted(find_records(folder), key=lambda record: record.about.kept_at, reverse=True)
    if options.json:
        say_json([row(record) for record in records])
    elif not records:
        say("no background tasks")
    for record in () if options.json else records:
        say(f"{record.name}  {state(record)}  {record.about.title}  in {record.about.cwd}")


def run_show(folder: Path, options: argparse.Namespace) -> None:
    record = chosen(folder, options.task)
    output, before = ending_of(record)
    if options.json:
        say_json({**row(record), "output": output})
        return
    about = record.about
    for name, value in (
        ("task", record.name),
        ("state", state(record)),
        ("command", about.command),
        ("folder", about.cwd),
        ("process", str(about.pid) if record.is_running else ""),
        ("kept", format_local(about.kept_at)),
        ("output", about.file),
        ("resume", f"clew --resume {about.session_id}"),
    ):
        if value:
            say(f"{name:<8} {value}")
    say(f"\n... {before:,} earlier bytes\n{output}" if before else f"\n{output}".rstrip("\n"))


def run_stop(folder: Path, options: argparse.Namespace) -> None:
    record = chosen(folder, options.task)
    was_running = record.is_running
    now: KeptRecord | None = record
    deadline = time.monotonic() + ENDS_WITHIN_S
    if was_running:
        call_off(record)
    while now is not None and now.is_running:
        if time.monotonic() > deadline:
            raise UserError(f"{record.name} has been signaled but is still running")
        time.sleep(
            LOOK_S
        )  # Poll, because the end only shows as a lock that another process releases.
        now = read(record.path)
    last = record if now is None else now
    if options.json:
        say_json(row(last))
    else:
        say(f"{record.name}: {'stopped' if was_running else f'already {state(last)}'}")


def chosen(folder: Path, name: str) -> KeptRecord:
    records = list(find_records(folder))
    meant = [
        record
        for record in records
        if name in (record.name, record.about.task_id, full_name(record))
    ]
    if len(meant) == 1:
        return meant[0]
    names = [record.name for record in meant or records]
    suffix = (
        f" and {len(names) - NAMED:,} more (clew tasks lists them)" if len(names) > NAMED else ""
    )
    raise UserError(
        f'{"several tasks match" if meant else "unknown task"} "{name}" (expected one of: '
        f"{', '.join(names[:NAMED]) or 'none'}{suffix})"
    )


def full_name(record: KeptRecord) -> str:
    return f"{record.about.session_id}/{record.about.task_id}"


def state(record: KeptRecord) -> str:
    """Return the task's state according to the kernel and its watcher."""
    if record.is_running:
        return "running" if record.is_watched else UNWATCHED
    if record.end is None:
        return "ended, exit status unknown"
    ended, at = record.end.exit, format_local(record.end.ended_at, seconds=True)
    how = f"by {ended.signal}" if ended.signal else f"with code {ended.code}"
    return f"{'stopped' if record.end.called_off else 'ended'} {how} at {at}"


def ending_of(record: KeptRecord) -> tuple[str, int]:
    """Return the last part of a task's output and the number of bytes before it."""
    try:
        with open(record.about.file, "rb", opener=open_only_files) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - SHOWN_BYTES))
            text = file.read(SHOWN_BYTES).decode("utf-8", "replace")
            return remove_secrets(text, in_environment(os.environ)), max(0, size - SHOWN_BYTES)
    except OSError as error:
        return f"(cannot read the output: {error.strerror})", 0


def row(record: KeptRecord) -> dict[str, Any]:
    about = record.about
    return {
        "task": record.name,
        "sessionId": about.session_id,
        "taskId": about.task_id,
        "kind": about.kind,
        "title": about.title,
        "command": about.command,
        "cwd": about.cwd,
        "file": about.file,
        "isRunning": record.is_running,
        "isWatched": record.is_watched,
        "isCalledOff": record.end is not None and record.end.called_off,
        "exitCode": None if record.end is None else record.end.exit.code,
        "signal": None if record.end is None else record.end.exit.signal,
        "keptAt": parse_moment(about.kept_at),
        "endedAt": None if record.end is None else parse_moment(record.end.ended_at),
    }
