"""`clew handover AGENT`: export a session to another agent, and print how to continue it.

The export is recorded, so that `clew sessions import` can restore the session later.
"""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable
from hashlib import md5, sha256
from itertools import count
from pathlib import Path
from typing import TypeAlias

from msgspec import structs

from clew.commands.sessions.output import find_cwd, find_home, find_saved_part
from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode, encode
from clew.core.messages.errors import UserError
from clew.parts.resuming import find_or_adopt
from clew.record.exchange.account import SECRETS
from clew.record.exchange.agents_here import resolve_place
from clew.record.exchange.bring import keep_export
from clew.record.exchange.export import session_of, write
from clew.record.exchange.targets.codex import encode_codex
from clew.record.exchange.targets.gemini import encode_gemini
from clew.record.exchange.targets.kimi import encode_context, encode_kimi
from clew.record.exchange.targets.opencode import encode_opencode
from clew.record.exchange.targets.pi import encode_pi
from clew.record.exchange.targets.qwen import encode_qwen
from clew.record.exchange.targets.registry import IDS
from clew.record.exchange.targets.turns import ExportedSession
from clew.record.exchange.targets.vibe import encode_messages, encode_metadata
from clew.record.transcript.choose import find_newest
from clew.system.clock import get_timestamp
from clew.system.command_groups import Group, GroupWord, argument, switch
from clew.system.files import is_folder, is_there

# The files to write, beginning with the one that an import reads, and the command.
Files: TypeAlias = tuple[dict[Path, bytes], str]

AGENTS = ("claude", "codex", "gemini", "kimi", "opencode", "pi", "qwen", "vibe")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)")


def main(argv: list[str]) -> int:
    parser = Group(prog="clew handover", description=DESCRIPTION)
    parser.take(
        GroupWord(
            run_handover,
            argument("agent", choices=AGENTS, help="Agent to continue the session with"),
            argument(
                "session",
                nargs="?",
                help="Session ID, title or file (default: newest in this folder)",
            ),
            switch("--raw", "Keep secrets, which are masked by default"),
        )
    )
    return parser.carry_out(argv, run_handover)


def run_handover(options: argparse.Namespace) -> None:
    sys.stdout.write(hand_over(options.agent, options.session, is_raw=options.raw) + "\n")


DESCRIPTION = "Export a session to another agent, and print the command that continues it there."


def hand_over(agent: str, name: str | None, *, is_raw: bool = False) -> str:
    """Export a session for an agent, and return the command that continues it."""
    if agent == "claude":
        # The transcript is already in this agent's format.
        own = find_or_adopt(find_home(), find_cwd(), name or _find_newest())
        return f"claude --resume {own.stem}"
    path = find_saved_part(name or _find_newest())
    session = session_of(path, None if is_raw else SECRETS)
    if not session.turns:
        raise UserError("the session has no messages")
    session = session if session.cwd else structs.replace(session, cwd=find_cwd())
    files, command = _WAYS[agent](session, IDS[agent](session))
    for target, data in files.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, data)
    target, data = next(iter(files.items()))
    keep_export(Path(find_home()), path, agent, data, target=target)
    return f"cd {shlex.quote(session.cwd)} && {command}"


def _find_newest() -> str:
    outline = find_newest(find_home(), find_cwd())
    if outline is None:
        raise UserError(f"no session found in {find_cwd()}; specify a session")
    return outline.session_id


def _place(folder: str) -> Path:
    return Path(find_cwd()) / resolve_place(folder, os.environ, Path.home())


def _read_time(session: ExportedSession) -> tuple[str, ...]:
    match = _TIME.match(session.begun_at)
    return match.groups() if match else ("1970", "01", "01", "00", "00", "00")


def _to_codex(session: ExportedSession, own: str) -> Files:
    year, month, day, *clock = _read_time(session)
    folder = _place("$CODEX_HOME|~/.codex") / "sessions" / year / month / day
    name = f"rollout-{year}-{month}-{day}T{'-'.join(clock)}-{own}.jsonl"
    return {folder / name: encode_codex(session)}, f"codex resume {own}"


def _to_pi(session: ExportedSession, own: str) -> Files:
    at = re.sub(r"[:.]", "-", session.turns[0].at)
    project = "--" + re.sub(r"[/\\:]", "-", session.cwd.lstrip("/\\")) + "--"
    path = _place("$PI_CODING_AGENT_DIR|~/.pi/agent") / "sessions" / project / f"{at}_{own}.jsonl"
    return {path: encode_pi(session)}, f"pi --session {shlex.quote(str(path))}"


def _to_opencode(session: ExportedSession, own: str) -> Files:
    path = Path(find_home()) / "clew" / "handover" / f"{own}.json"
    command = f"opencode import {shlex.quote(str(path))} && opencode --session {own}"
    return {path: encode_opencode(session)}, command


def _to_gemini(session: ExportedSession, own: str) -> Files:
    year, month, day, hour, minute, _ = _read_time(session)
    folder, is_new = _find_gemini_folder(session.cwd)
    path = folder / "chats" / f"session-{year}-{month}-{day}T{hour}-{minute}-{own[:8]}.jsonl"
    # The program deletes sessions that were not used for a month, before it resumes one.
    used = encode({"$set": {"lastUpdated": get_timestamp()}}) + b"\n"
    files = {path: encode_gemini(session) + used}
    if is_new:
        files[folder / ".project_root"] = session.cwd.encode()
    return files, f"gemini --resume {own}"


def _find_gemini_folder(cwd: str) -> tuple[Path, bool]:
    """Return the folder that Gemini CLI uses for a project, and whether it is new."""
    base = _place("~/.gemini")
    for marker in sorted(base.glob("tmp/*/.project_root")):
        if marker.read_text("utf-8", "replace").strip() == cwd:
            return marker.parent, False
    projects = object_of(_read_object(base / "projects.json").get("projects"))
    if own := text_of(projects.get(cwd)):
        return base / "tmp" / own, False
    # Older versions use a digest; newer ones copy that folder when they start.
    old = base / "tmp" / sha256(cwd.encode()).hexdigest()
    if is_folder(old):
        return old, False
    name = re.sub(r"[^a-z0-9]+", "-", Path(cwd).name.lower()).strip("-") or "project"
    names = (name if number == 0 else f"{name}-{number}" for number in count())
    taken = set(map(text_of, projects.values()))
    free = next(n for n in names if n not in taken and not is_there(base / "tmp" / n))
    return base / "tmp" / free, True


def _read_object(path: Path) -> Json:
    """Return the object in another program's file; empty if there is none."""
    try:
        return object_of(decode(path.read_bytes()))
    except (OSError, ValueError):
        return {}


def _to_qwen(session: ExportedSession, own: str) -> Files:
    project = re.sub(r"[^A-Za-z0-9]", "-", session.cwd)
    path = _place("~/.qwen") / "projects" / project / "chats" / f"{own}.jsonl"
    return {path: encode_qwen(session)}, f"qwen --resume {own}"


def _to_kimi(session: ExportedSession, own: str) -> Files:
    base = _place("$KIMI_SHARE_DIR|~/.kimi")
    digest = md5(session.cwd.encode(), usedforsecurity=False).hexdigest()
    folder = base / "sessions" / digest / own
    files = {
        folder / "wire.jsonl": encode_kimi(session),
        folder / "context.jsonl": encode_context(session),
    }
    # The program finds sessions only in the folders that this file lists.
    known = _read_object(base / "kimi.json")
    folders = list_of(known.get("work_dirs"))
    if is_there(base / "kimi.json") and not known:
        raise UserError(f"{base / 'kimi.json'}: not a JSON object; kimi could not find the session")
    if all(object_of(item).get("path") != session.cwd for item in folders):
        entry = {"path": session.cwd, "kaos": "local", "last_session_id": None}
        files[base / "kimi.json"] = encode(known | {"work_dirs": [*folders, entry]}) + b"\n"
    return files, f"kimi --session {own}"


def _to_vibe(session: ExportedSession, own: str) -> Files:
    year, month, day, *clock = _read_time(session)
    name = f"session_{year}{month}{day}_{''.join(clock)}_{own[:8]}"
    folder = _place("$VIBE_HOME|~/.vibe") / "logs" / "session" / name
    files = {
        folder / "messages.jsonl": encode_messages(session),
        folder / "meta.json": encode_metadata(session),
    }
    return files, f"vibe --resume {own}"


_WAYS: dict[str, Callable[[ExportedSession, str], Files]] = {
    "codex": _to_codex,
    "gemini": _to_gemini,
    "kimi": _to_kimi,
    "opencode": _to_opencode,
    "pi": _to_pi,
    "qwen": _to_qwen,
    "vibe": _to_vibe,
}
