"""`clew sessions rewind`: rewind files and conversation to a message, and redo."""

import argparse
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
from clew.system.clock import get_timestamp
from clew.system.command_groups import GroupWord, argument, switch

# Messages as the user names them.


def uuid_of(path: Path, text: str) -> str:
    return text if text == START else resolve_message(path, text)


# `clew sessions fork`: copy a session up to any message.


def run_fork(options: argparse.Namespace) -> int:
    path = find_transcript(options.session)
    if say_waiting(path):
        return CANNOT
    uuid = uuid_of(path, options.message) if options.message else None
    result = fork(path, uuid, title=options.title, at=get_timestamp())
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


# `clew sessions graft`: append part of one session to another.


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
            f"appended {format_count(result.messages, 'message')}{agents} from {source.stem} to {target.stem}"
        )
    return FINE


# `clew sessions rename`: set the user's title; no line of the conversation changes.


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


# `clew sessions tag`: set a tag for finding a session.


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
        raise CannotError("specify either a message or --redo")
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
        say(f"problem: {path}: {why}")
    if planned.conversation:
        where = planned.leaf or "its beginning"
        say(f"the conversation {'now ends' if is_done else 'would end'} at {where}")
    if not is_done and not planned.is_clear:
        say(
            "nothing was changed; --force overwrites files changed outside clew "
            "and skips files that can't be restored"
        )
    if is_done:
        say(
            f"{format_count(len(planned.changes), 'file')} changed; undo with `clew sessions rewind {planned.path.stem} --redo`"
        )


WORDS = {
    "fork": GroupWord(
        run_fork,
        SESSION,
        argument(
            "message",
            nargs="?",
            help="Last message to copy: UUID or prefix",
        ),
        argument("--title", default="", help="Title of the copy"),
    ),
    "graft": GroupWord(
        run_graft,
        argument("session", help="Session to append to: ID, title or file"),
        argument("source", help="Session to copy from: ID, title or file"),
        argument("first", help="First prompt to copy: UUID or prefix"),
        argument("last", nargs="?", help="Last message to copy (default: end of the source)"),
    ),
    "rename": GroupWord(
        run_rename, SESSION, argument("title", help="New title; an empty one removes it")
    ),
    "tag": GroupWord(run_tag, SESSION, argument("tag", help="Tag; an empty one removes it")),
    "rewind": GroupWord(
        run_rewind,
        SESSION,
        argument(
            "message",
            nargs="?",
            help="UUID or prefix. Rewinds to just before a prompt, "
            "or to just after any other message; `start` rewinds to the beginning",
        ),
        (
            switch("--files", "Rewind only the files"),
            switch("--conversation", "Rewind only the conversation"),
        ),
        switch("--redo", "Undo the latest rewind"),
        switch("--force", "Overwrite files changed outside clew; skip unrestorable ones"),
        DRY_RUN,
    ),
}
