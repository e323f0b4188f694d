"""`clew sessions rewind`: files and conversation back to a message, and back again."""

import argparse
import time
from pathlib import Path
from typing import Any

from clew.commands.sessions.output import (
    CANNOT,
    DRY_RUN,
    FINE,
    FOUND,
    SESSION,
    CannotError,
    find_home,
    find_transcript,
    say,
    say_json,
    say_waiting,
)
from clew.core.messages.factories import format_timestamp
from clew.core.messages.text import format_count
from clew.record.library.copies import append_beside, fork, graft
from clew.record.rewind.disk import Blobs, blobs_dir
from clew.record.rewind.restore import (
    START,
    RestorePlan,
    carry_out,
    plan,
    plan_redo,
    resolve_message,
)
from clew.record.transcript.examine import session_id_of
from clew.system.command_groups import GroupWord, argument, switch

# Messages of sessions by what a person types.


def uuid_of(path: Path, text: str) -> str:
    return text if text == START else resolve_message(path, text)


# `clew sessions fork`: a session that begins as another does, up to any message of it.


def run_fork(options: argparse.Namespace) -> int:
    path = find_transcript(options.session)
    if say_waiting(path):
        return CANNOT
    uuid = uuid_of(path, options.message) if options.message else None
    result = fork(path, uuid, title=options.title, at=format_timestamp(time.time_ns() // 1_000_000))
    if options.json:
        say_json(
            {
                "sessionId": result.path.stem,
                "path": str(result.path),
                "messages": result.messages,
                "agents": result.agents,
                "title": result.title,
            }
        )
    else:
        agents = f" with {format_count(result.agents, 'subagent')}" if result.agents else ""
        say(
            f"{result.path.stem}: {format_count(result.messages, 'message')}{agents}, {result.title!r}"
        )
    return FINE


# `clew sessions graft`: a part of one session brought to the end of another.


def run_graft(options: argparse.Namespace) -> int:
    target, source = find_transcript(options.session), find_transcript(options.source)
    if say_waiting(target) or say_waiting(source):
        return CANNOT
    first = uuid_of(source, options.first)
    last = uuid_of(source, options.last) if options.last else None
    result = graft(target, source, first, last)
    if options.json:
        brought = {"messages": result.messages, "agents": result.agents}
        say_json({"sessionId": target.stem, "from": source.stem, **brought})
    else:
        agents = f" with {format_count(result.agents, 'subagent')}" if result.agents else ""
        say(
            f"{format_count(result.messages, 'message')}{agents} of {source.stem} brought to {target.stem}"
        )
    return FINE


# `clew sessions rename`: a title of the person's own; no line of the conversation changes.


def run_rename(options: argparse.Namespace) -> int:
    path = find_transcript(options.session)
    session_id = session_id_of(path)
    line = {"type": "custom-title", "customTitle": options.title, "sessionId": session_id}
    append_beside(path, line)
    if options.json:
        say_json({"sessionId": session_id, "title": options.title or None})
    else:
        say(f"{session_id}: {options.title or '(no title)'}")
    return FINE


# `clew sessions tag`: one label for a session, to find it by.


def run_tag(options: argparse.Namespace) -> int:
    path = find_transcript(options.session)
    session_id = session_id_of(path)
    append_beside(path, {"type": "tag", "tag": options.tag, "sessionId": session_id})
    if options.json:
        say_json({"sessionId": session_id, "tag": options.tag or None})
    else:
        say(f"{session_id}: {'#' + options.tag if options.tag else '(no tag)'}")
    return FINE


def run_rewind(options: argparse.Namespace) -> int:
    blobs = Blobs(blobs_dir(find_home()), syncs=True)
    path = find_transcript(options.session)
    if options.redo == (options.message is not None):
        raise CannotError("name a message, or --redo")
    if say_waiting(path):
        return CANNOT
    if options.redo:
        planned = plan_redo(path, blobs)
    else:
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


def _as_json(planned: RestorePlan, *, is_done: bool) -> dict[str, Any]:
    return {
        "done": is_done,
        "to": planned.to,
        "files": [change.as_json() for change in planned.changes],
        "changedByOthers": [{"path": path, "reason": why} for path, why in planned.foreign],
        "lost": [{"path": path, "reason": why} for path, why in planned.lost],
        "conversation": planned.conversation,
        "leafUuid": planned.leaf,
    }


def _tell(planned: RestorePlan, *, is_done: bool) -> None:
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
            f"{format_count(len(planned.changes), 'file')}; `clew sessions rewind {planned.path.stem} --redo`"
        )


WORDS = {
    "fork": GroupWord(
        run_fork,
        SESSION,
        argument(
            "message",
            nargs="?",
            help="the last message of the copy, its uuid or the uuid's beginning",
        ),
        argument("--title", default="", help="the copy's title"),
    ),
    "graft": GroupWord(
        run_graft,
        argument("session", help="the session that gets the part: id, title or file"),
        argument("source", help="the session it comes from: id, title or file"),
        argument("first", help="the prompt it begins with, its uuid or the uuid's beginning"),
        argument("last", nargs="?", help="its last message (default: where the source stands)"),
    ),
    "rename": GroupWord(
        run_rename, SESSION, argument("title", help="the new title; an empty one takes it away")
    ),
    "tag": GroupWord(
        run_tag, SESSION, argument("tag", help="the label; an empty one takes it away")
    ),
    "rewind": GroupWord(
        run_rewind,
        SESSION,
        argument(
            "message",
            nargs="?",
            help="a message's uuid, or its beginning: back to before a prompt, or to behind anything else; "
            "`start`: before everything",
        ),
        (switch("--files", "the files alone"), switch("--conversation", "the conversation alone")),
        switch("--redo", "take the latest way back, back"),
        switch("--force", "over what others changed, and without what is lost"),
        DRY_RUN,
    ),
}
