"""`clew sessions search`: words in all sessions, and where they stand."""

import argparse
import sys

from clew.library.search import Scope, folders_of, search, told
from clew.library.words import query_of
from clew.library.worktrees import worktrees
from clew.messages.counts import count_of, size_of
from clew.sessions.output import (
    FINE,
    FOUND,
    CannotError,
    cwd,
    home,
    say,
    say_closed,
    say_copies,
    say_json,
    transcript,
)
from clew.transcript import choose
from clew.transcript.examine import session_id_of
from clew.transcript.unsaved import kept_aside


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="+", help='all must be there; "a phrase"; beg* for a beginning')
    add("--here", action="store_true", help="in the sessions of this folder and its worktrees")
    add("--session", metavar="SESSION", help="in one session: id, title or file")
    add("--no-agents", action="store_true", help="not in subagents' transcripts")
    add("--limit", type=int, default=20, metavar="N", help="at most N answers (20)")
    add("--no-index", action="store_true", help="read the files instead of the index")


def run(options: argparse.Namespace) -> int:
    query = query_of(" ".join(f'"{w}"' if " " in w else w for w in options.words))
    if query.is_empty:
        raise CannotError("there is no word to look for in that")
    scope = Scope(
        folders=folders_of(home(), worktrees(cwd())) if options.here else None,
        session_id=session_id_of(transcript(options.session)) if options.session else None,
        agents=not options.no_agents,
    )
    say_closed(everywhere=not options.here)
    limit = max(1, options.limit)
    found = search(home(), query, scope, limit=limit, use_index=not options.no_index)
    for path in found.unread:
        sys.stderr.write(f"clew sessions: {path} cannot be read; it was not searched\n")
    _say_unsearched(scope)
    if options.json:
        say_json(
            {
                "hits": [
                    {
                        "sessionId": hit.session_id,
                        "agentId": hit.agent or None,
                        "uuid": hit.uuid,
                        "type": hit.kind,
                        "timestamp": hit.timestamp,
                        "title": hit.title,
                        "cwd": hit.cwd,
                        "path": hit.path,
                        "offset": hit.at,
                        "snippet": hit.snippet,
                    }
                    for hit in found.hits
                ],
                "unindexedBytes": found.behind_bytes,
                "withoutIndex": found.without_index or None,
            }
        )
        return FINE if found.hits else FOUND
    for line in told(found):
        say(line)
    if found.behind_bytes > 0 and not options.no_index:
        say(f"({size_of(found.behind_bytes)} are not in the index yet: clew sessions index)")
    if len(found.hits) == limit:
        say(f"(the newest {count_of(limit, 'answer')}; --limit shows more)")
    return FINE if found.hits else FOUND


def _say_unsearched(scope: Scope) -> None:
    """Which emergency copies there are of what was searched: no search reads them."""
    for session, copies in kept_aside(home()).items():
        folder = str(choose.place_of_copy(home(), cwd(), session, copies[0]).parent)
        if scope.session_id in (None, session) and folder in (scope.folders or (folder,)):
            say_copies(session, copies, "that was not searched")
