"""`clew sessions list`: list sessions, newest first, with filters; say why files are omitted."""

import argparse
import heapq
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from clew.commands.sessions.output import (
    FINE,
    NONE_HERE,
    OTHER_AGENTS,
    Bar,
    CannotError,
    find_cwd,
    find_home,
    parse_moment,
    refresh_others,
    say,
    say_closed,
    say_json,
)
from clew.commands.styled import print_pieces
from clew.core.messages.text import format_count, format_size
from clew.record.exchange.agents_here import TITLES
from clew.record.library.listing import (
    ListingFilter,
    list_hidden,
    list_newest_first,
    select_fitting,
)
from clew.record.transcript.light import Outline
from clew.record.transcript.running import Running, list_running
from clew.system import clock
from clew.system.command_groups import GroupWord, argument, switch

if TYPE_CHECKING:
    from clew.record.exchange.others import OtherSessions
    from clew.record.stores.base import Listed, SessionStore


def run_list(options: argparse.Namespace) -> int:
    if options.hidden:
        return _hidden(options)
    if options.stored:
        return _stored(options)
    wanted = ListingFilter(
        branch=options.branch,
        tag=options.tag,
        team=options.team,
        title=options.title,
        since=options.since,
        until=options.until,
        model=options.model,
        cost_over=options.cost_over,
    )
    is_closed = say_closed(everywhere=options.all)
    others = refresh_others() if options.other_agents else None
    agents = others.read_agents() if others else {}
    outlines = islice(
        _fitting(others, wanted, everywhere=options.all),
        options.limit if options.limit > 0 else None,
    )
    if options.json:
        running = open_now()
        say_json(
            [
                as_json(outline)
                | {
                    "open": to_builtins(running.get(outline.session_id)),
                    "agent": _agent_of(outline, others, agents),
                }
                for outline in outlines
            ]
        )
        return FINE
    folder, running = find_cwd(), open_now()
    shown_count = 0
    for outline in outlines:
        shown_count += 1
        agent = _agent_of(outline, others, agents)
        elsewhere = f"  ({outline.cwd})" if outline.cwd and outline.cwd != folder else ""
        tag = f"  #{outline.tag}" if outline.tag else ""
        when = clock.format_local(outline.modified_at)
        print_pieces(
            ("quiet", f"{outline.session_id}  {when}  {format_size(outline.size_bytes):>8}"),
            ("strong", f"  {' '.join(outline.title.split())}"),
            ("good", tag),
            ("quiet", f"  {TITLES[agent]}" if agent else ""),
            ("quiet", elsewhere),
            ("warning", by(running.get(outline.session_id))),
        )
    if shown_count and sys.stdout.isatty():
        # Only on a terminal: scripts count and cut lines.
        print_pieces(("quiet", _sum_up(shown_count, options)))
    if not shown_count and not is_closed:
        _none(is_narrowed=wanted != ListingFilter(), everywhere=options.all)
    return FINE


def _sum_up(count: int, options: argparse.Namespace) -> str:
    where = "in all folders" if options.all else "in this folder; --all lists all folders"
    is_cut = options.limit > 0 and count == options.limit
    return f"{'the newest ' if is_cut else ''}{format_count(count, 'session')} {where}"


def open_now() -> dict[str, Running]:
    """Return the processes that have sessions open, by session ID."""
    return {running.session_id: running for running in list_running(find_home())}


def by(running: Running | None) -> str:
    return "" if running is None else f"  (open: process {running.pid}, {running.status})"


def _agent_of(
    outline: Outline, others: "OtherSessions | None", agents: dict[str, str]
) -> str | None:
    is_copy = others is not None and others.holds(outline.path)
    return agents.get(outline.session_id) if is_copy else None


def _fitting(
    others: "OtherSessions | None", wanted: ListingFilter, *, everywhere: bool
) -> Iterator[Outline]:
    own = _fitting_in(find_home(), wanted, everywhere=everywhere)
    if others is None:
        return own
    copies = _fitting_in(others.home, wanted, everywhere=everywhere)
    merged = heapq.merge(own, copies, key=lambda outline: -outline.modified_at)
    return (o for o in merged if not others.is_double(o.path, o.session_id))


def _fitting_in(home: Path, wanted: ListingFilter, *, everywhere: bool) -> Iterator[Outline]:
    only = None
    if wanted.needs_database:
        with Bar("reading sessions") as bar:
            only = select_fitting(home, wanted, bar)
    for outline in list_newest_first(home, find_cwd(), everywhere=everywhere, only=only):
        if wanted.fits(outline):
            yield outline


def _hidden(options: argparse.Namespace) -> int:
    sessions = list(list_hidden(find_home(), find_cwd(), everywhere=options.all))
    if options.json:
        say_json(
            [{"path": h.path, "sizeBytes": h.size_bytes, "reason": h.reason} for h in sessions]
        )
        return FINE
    for session in sessions:
        say(f"{session.path}: {session.reason}")
    if not sessions:
        say("no hidden files")
    return FINE


def _stored(options: argparse.Namespace) -> int:
    import asyncio

    from clew.commands.sessions.transfer import open_named_store
    from clew.record.stores.base import StoreError
    from clew.record.transcript.paths import find_session

    try:
        listed = asyncio.run(_listed(open_named_store(options.store)))
    except StoreError as error:
        raise CannotError(str(error)) from None
    agents: dict[str, int] = {}
    for item in listed:
        session_id = item.key.session_id
        agents[session_id] = agents.get(session_id, 0) + bool(item.key.agent_id)
    rows = [
        {
            "sessionId": item.key.session_id,
            "lines": item.lines,
            "agents": agents[item.key.session_id],
            "path": next(
                (str(path) for path in find_session(find_home(), item.key.session_id)), None
            ),
        }
        for item in sorted(listed, key=lambda item: item.key.session_id)
        if not item.key.agent_id
    ]
    if options.json:
        say_json(rows)
        return FINE
    for row in rows:
        where = row["path"] or "not on this machine; download it with clew sessions pull"
        unit = "line " if row["lines"] == 1 else "lines"
        say(f"{row['sessionId']}  {row['lines']:>7,} {unit}  {where}")
    if not rows:
        say("the store is empty")
    return FINE


async def _listed(
    opening: "AbstractAsyncContextManager[SessionStore]",
) -> "Sequence[Listed]":
    async with opening as store:
        return await store.list()


def _none(*, is_narrowed: bool, everywhere: bool) -> None:
    """Report that no session was found, and where this folder's sessions may be."""
    from clew.record.library.keeping import find_moved_sessions

    if is_narrowed:
        say("no matching sessions")
    elif next(list_hidden(find_home(), find_cwd(), everywhere=everywhere), None) is not None:
        say(
            "no sessions to list; run clew sessions list --hidden to see which files are hidden and why"
        )
        return
    elif everywhere:
        say("no sessions yet")
    if everywhere:
        return
    moved = find_moved_sessions(find_home(), find_cwd())
    if not moved and not is_narrowed:
        say(NONE_HERE)
    for place in moved:
        say(
            f"no sessions in this folder, but {format_count(place.sessions, 'session')} of {place.cwd}, "
            f"which no longer exists; if it was moved here, run clew sessions relocate {place.cwd} ."
        )


def as_json(outline: Outline) -> dict[str, Any]:
    return {
        "sessionId": outline.session_id,
        "title": outline.title,
        "customTitle": outline.custom_title,
        "firstPrompt": outline.first_prompt,
        "cwd": outline.cwd,
        "gitBranch": outline.git_branch,
        "tag": outline.tag,
        "team": outline.team,
        "createdAt": outline.created_at,
        "modifiedAt": parse_moment(outline.modified_at),
        "sizeBytes": outline.size_bytes,
        "path": str(outline.path),
    }


WORDS = {
    "list": GroupWord(
        run_list,
        switch("--all", "Include the sessions of all folders"),
        OTHER_AGENTS,
        argument("--limit", type=int, default=0, metavar="N", help="List at most N sessions"),
        argument("--branch", default="", help="Only sessions last used on this git branch"),
        argument("--tag", default="", help="Only sessions with this tag"),
        argument("--team", default="", metavar="NAME", help="Only sessions of this team of agents"),
        argument(
            "--title", default="", metavar="TEXT", help="Only sessions with TEXT in the title"
        ),
        argument(
            "--since",
            default="",
            metavar="TIME",
            help="Only sessions changed since TIME, such as 2026-01-31T12:00",
        ),
        argument("--until", default="", metavar="TIME", help="Only sessions changed before TIME"),
        argument("--model", default="", help="Only sessions with responses from this model"),
        argument(
            "--cost-over", type=float, metavar="USD", help="Only sessions that cost more than USD"
        ),
        switch("--hidden", "List the hidden files, and why they are hidden"),
        switch("--stored", "List the sessions in your store"),
        argument("--store", help="Folder or URL (default: the sessionStore setting)"),
    ),
}
