"""`clew handover AGENT`: export a session to another agent, and print how to continue it.

The export is recorded, so that `clew sessions import` can restore the session later.
"""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from clew.commands.sessions.output import find_cwd, find_home, find_saved_part
from clew.core.messages.errors import UserError
from clew.parts.resuming import find_or_adopt
from clew.record.exchange.account import SECRETS
from clew.record.exchange.agents_here import resolve_place
from clew.record.exchange.bring import keep_export
from clew.record.exchange.export import session_of, write
from clew.record.exchange.targets.registry import IDS, TARGETS
from clew.record.exchange.targets.turns import ExportedSession
from clew.record.transcript.choose import find_newest
from clew.system.command_groups import Group, GroupWord, argument, switch

AGENTS = ("claude", "codex", "opencode", "pi")
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
    data = TARGETS[agent](session)
    target, command = _WAYS[agent](session, IDS[agent](session))
    target.parent.mkdir(parents=True, exist_ok=True)
    write(target, data)
    keep_export(Path(find_home()), path, agent, data)
    folder = session.cwd or find_cwd()
    return f"cd {shlex.quote(folder)} && {command}"


def _find_newest() -> str:
    outline = find_newest(find_home(), find_cwd())
    if outline is None:
        raise UserError(f"no session found in {find_cwd()}; specify a session")
    return outline.session_id


def _place(folder: str) -> Path:
    return Path(find_cwd()) / resolve_place(folder, os.environ, Path.home())


def _to_codex(session: ExportedSession, own: str) -> tuple[Path, str]:
    match = _TIME.match(session.turns[0].at)
    year, month, day, *clock = match.groups() if match else ("1970", "01", "01", "00", "00", "00")
    folder = _place("$CODEX_HOME|~/.codex") / "sessions" / year / month / day
    name = f"rollout-{year}-{month}-{day}T{'-'.join(clock)}-{own}.jsonl"
    return folder / name, f"codex resume {own}"


def _to_pi(session: ExportedSession, own: str) -> tuple[Path, str]:
    at = re.sub(r"[:.]", "-", session.turns[0].at)
    project = "--" + re.sub(r"[/\\:]", "-", session.cwd.lstrip("/\\")) + "--"
    path = _place("$PI_CODING_AGENT_DIR|~/.pi/agent") / "sessions" / project / f"{at}_{own}.jsonl"
    return path, f"pi --session {shlex.quote(str(path))}"


def _to_opencode(_: ExportedSession, own: str) -> tuple[Path, str]:
    path = Path(find_home()) / "clew" / "handover" / f"{own}.json"
    return path, f"opencode import {shlex.quote(str(path))} && opencode --session {own}"


_WAYS: dict[str, Callable[[ExportedSession, str], tuple[Path, str]]] = {
    "codex": _to_codex,
    "opencode": _to_opencode,
    "pi": _to_pi,
}
