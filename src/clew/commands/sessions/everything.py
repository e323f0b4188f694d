"""`clew sessions import --all`: import the sessions of every agent on this machine.

A session that was imported before is not imported again. If it has grown in the other program but
not in clew, the new messages are added. The agents' files are only read.
"""

import argparse
import os
import tempfile
from collections import Counter
from pathlib import Path

from msgspec import Struct

from clew.commands.sessions.output import CANNOT, FINE, Bar, find_cwd, find_home, say, say_json
from clew.core.json_object import Json
from clew.core.messages.errors import SessionError, describe_error
from clew.record.exchange.agents_here import TITLES, list_sources
from clew.record.exchange.bring import ImportedSession, RefusedSession, bring_all
from clew.system.clock import get_timestamp


class Found(Struct, kw_only=True):
    """The sessions found for one agent."""

    title: str
    files: int = 0
    imported: list[ImportedSession] = []
    known: int = 0
    empty: int = 0
    refused: list[tuple[str, str]] = []


def import_everything(options: argparse.Namespace) -> int:
    """Import the sessions of all agents, or only show what would be imported."""
    listed = list(list_sources(os.environ, Path.home(), Path(find_cwd()), find_home()))
    found = {name: Found(title=title) for name, title in TITLES.items()}
    with Bar("importing") as bar:
        for number, (agent, path) in enumerate(listed, 1):
            _import(found[agent], path, options)
            bar(number, len(listed))
    if options.json:
        say_json({name: _describe_agent(agent) for name, agent in found.items() if agent.files})
    else:
        _tell(found, is_rehearsal=options.dry_run)
    return CANNOT if any(agent.refused for agent in found.values()) else FINE


def _import(found: Found, path: Path, options: argparse.Namespace) -> None:
    found.files += 1
    home = find_home()
    try:
        if options.dry_run:
            with tempfile.TemporaryDirectory(prefix="clew-") as folder:
                imported, refused = _bring(home, path, options, into=Path(folder))
        else:
            imported, refused = _bring(home, path, options)
    except (SessionError, OSError) as error:
        found.refused.append((str(path), describe_error(error)))
        return
    found.imported += imported
    for session in refused:
        if session.known:
            found.known += 1
        elif session.is_empty:
            found.empty += 1
        else:
            found.refused.append((str(path), session.reason))


def _bring(
    home: Path, path: Path, options: argparse.Namespace, *, into: Path | None = None
) -> tuple[list[ImportedSession], list[RefusedSession]]:
    return bring_all(
        home,
        path,
        find_cwd(),
        now=get_timestamp,
        has_new_id=options.new_id,
        into=into,
    )


def _tell(agents: dict[str, Found], *, is_rehearsal: bool) -> None:
    rows = [
        (
            agent.title, str(agent.files), str(len(agent.imported)),
            str(sum(session.messages for session in agent.imported)),
            str(sum(session.agents for session in agent.imported)), str(agent.known),
            str(agent.empty), str(len(agent.refused)),
        )
        for agent in agents.values()
        if agent.files
    ]  # fmt: skip
    if not rows:
        say("no sessions of other agents found")
        return
    head = ("agent", "files", "would import" if is_rehearsal else "imported", "messages",
            "subagents", "already here", "empty", "refused")  # fmt: skip
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        first, *rest = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
        say("  ".join(cells))
    for agent in agents.values():
        changed, left_out = Counter[str](), Counter[str]()
        for session in agent.imported:
            changed.update(session.tally.changed)
            left_out.update(session.tally.left_out)
        for name, reasons in (("changed", changed), ("left out", left_out)):
            for reason, times in sorted(reasons.items()):
                say(f"{agent.title}: {name}: {reason}: {times:,}")
        for path, why in agent.refused:
            say(why if why.startswith(path) else f"{path}: {why}")


def _describe_agent(agent: Found) -> Json:
    return {
        "files": agent.files,
        "imported": [describe_session(session) for session in agent.imported],
        "alreadyHere": agent.known,
        "empty": agent.empty,
        "refused": [{"file": path, "reason": why} for path, why in agent.refused],
    }


def describe_session(session: ImportedSession) -> Json:
    tally = session.tally
    return {
        "sessionId": session.session_id,
        "path": str(session.path),
        "kind": session.kind,
        "title": session.title,
        "messages": session.messages,
        "agents": session.agents,
        "items": tally.items,
        "kept": tally.kept,
        "changed": tally.changed,
        "leftOut": tally.left_out,
        "lost": session.losses,
        "restored": session.restored,
    }
