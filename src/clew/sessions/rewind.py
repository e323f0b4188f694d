"""`clew sessions rewind`: files and conversation back to a message, and back again."""

import argparse
from typing import Any

from clew.messages.counts import count_of
from clew.rewind.blobs import Blobs, blobs_dir
from clew.rewind.restore import Plan, carry_out, plan, plan_redo
from clew.sessions.output import (
    CANNOT,
    FINE,
    FOUND,
    CannotError,
    home,
    say,
    say_json,
    say_waiting,
    transcript,
)


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("session", help="id, title or file")
    add(
        "message",
        nargs="?",
        help="a message's uuid, or its beginning: back to before a prompt, or to behind anything else; "
        "`start`: before everything",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--files", action="store_true", help="the files alone")
    what.add_argument("--conversation", action="store_true", help="the conversation alone")
    add("--redo", action="store_true", help="take the latest way back, back")
    add("--force", action="store_true", help="over what others changed, and without what is lost")
    add("--dry-run", action="store_true", help="say what would be done")


def run(options: argparse.Namespace) -> int:
    blobs = Blobs(blobs_dir(home()), syncs=True)
    path = transcript(options.session)
    if options.redo == (options.message is not None):
        raise CannotError("name a message, or --redo")
    if say_waiting(path):
        return CANNOT
    if options.redo:
        planned = plan_redo(path, blobs)
    else:
        from clew.sessions.messages import uuid_of

        planned = plan(
            path,
            uuid_of(path, options.message),
            blobs,
            files=not options.conversation,
            conversation=not options.files,
        )
    is_done = not options.dry_run and (planned.is_clear or options.force)
    if is_done:
        carry_out(planned, blobs, force=options.force)
    if options.json:
        say_json(_as_json(planned, is_done=is_done))
    else:
        _tell(planned, is_done=is_done)
    return FINE if is_done or (options.dry_run and planned.is_clear) else FOUND


def _as_json(planned: Plan, *, is_done: bool) -> dict[str, Any]:
    return {
        "done": is_done,
        "to": planned.to,
        "files": [change.as_json() for change in planned.changes],
        "changedByOthers": [{"path": path, "reason": why} for path, why in planned.foreign],
        "lost": [{"path": path, "reason": why} for path, why in planned.lost],
        "conversation": planned.conversation,
        "leafUuid": planned.leaf,
    }


def _tell(planned: Plan, *, is_done: bool) -> None:
    would = "" if is_done else "would be "
    for change in planned.changes:
        say(f"{would}{change.verb}: {change.path}")
    for path, why in (*planned.foreign, *planned.lost):
        say(f"stands against it: {path}: {why}")
    if planned.conversation:
        where = planned.leaf or "its beginning"
        say(f"the conversation {'stands' if is_done else 'would stand'} at {where}")
    if not is_done and not planned.is_clear:
        say("nothing was changed; --force goes over what others changed, and without what is lost")
    if is_done:
        say(
            f"{count_of(len(planned.changes), 'file')}; `clew sessions rewind {planned.path.stem} --redo`"
        )
