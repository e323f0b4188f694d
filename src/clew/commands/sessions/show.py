"""`clew sessions show`: show the resumed conversation; also `search`, `tree`, `stats` and `du`."""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from clew.commands.sessions.output import (
    FINE,
    FOUND,
    OTHER_AGENTS,
    SESSION,
    Bar,
    CannotError,
    find_cwd,
    find_home,
    find_readable,
    find_saved_part,
    refresh_others,
    say,
    say_closed,
    say_copies,
    say_json,
)
from clew.commands.styled import Piece, print_pieces
from clew.core.messages.encoding import encode
from clew.core.messages.text import format_count, format_size
from clew.record.library.branches import format_tree, read_tree
from clew.record.library.keeping import measure_sizes
from clew.record.library.listing import compute_stats
from clew.record.library.places import list_worktrees
from clew.record.library.search import Scope, SearchHits, folders_of, join_results, search
from clew.record.library.words import Query, pattern_of, query_of, strip_tags
from clew.record.transcript import choose
from clew.record.transcript.examine import session_id_of
from clew.record.transcript.recovery import list_all_copies, load_with_unsaved
from clew.system.clock import format_local_timestamp
from clew.system.command_groups import GroupWord, argument, switch


def run_show(options: argparse.Namespace) -> int:
    loaded = load_with_unsaved(find_readable(options.session), find_home())
    if options.json:
        say_json(
            {
                "path": str(loaded.path),
                "leafUuid": loaded.leaf_uuid,
                "messages": loaded.messages,
                "beside": loaded.side.current,
            }
        )
        return FINE
    for message in loaded.messages:
        for line in format_message(message):
            say(f"{message.get('uuid')} {line}" if options.uuids else line)
    return FINE


def format_message(message: dict[str, Any]) -> Iterator[str]:
    body = message.get("message")
    content = body.get("content") if isinstance(body, dict) else message.get("content")
    blocks: Sequence[Any] = content if isinstance(content, list) else [content]
    for block in blocks:
        if isinstance(block, str):
            yield f"{message['type']}: {strip_tags(block)}"
        elif isinstance(block, dict):
            words = block.get("text") or block.get("thinking") or block.get("content")
            name = block.get("name") or block.get("type")
            text = words if isinstance(words, str) else encode(block.get("input", words)).decode()
            yield f"{message['type']} [{name}]: {text}"


# `clew sessions search`: find words in all sessions.


def run_search(options: argparse.Namespace) -> int:
    query = query_of(" ".join(f'"{w}"' if " " in w else w for w in options.words))
    if query.is_empty:
        raise CannotError("the query contains no words")
    others = refresh_others() if options.other_agents else None
    limit = max(1, options.limit)
    say_closed(everywhere=not options.here)
    result = _search(find_home(), query, options)
    if others is not None:
        copies = _search(others.home, query, options)
        hits = [hit for hit in copies.hits if not others.is_double(Path(hit.path), hit.session_id)]
        result = join_results(result, replace(copies, hits=hits), limit)
    for path in result.unread:
        sys.stderr.write(f"clew sessions: {path} is not readable and was not searched\n")
    _say_unsearched(_scope(find_home(), options))
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
                    for hit in result.hits
                ],
                "unindexedBytes": result.behind_bytes,
                "withoutIndex": result.without_index or None,
            }
        )
        return FINE if result.hits else FOUND
    _say_hits(result, query)
    if result.behind_bytes > 0 and not options.no_index:
        say(
            f"({format_size(result.behind_bytes)} not indexed yet; run clew sessions index to update the index)"
        )
    if len(result.hits) == limit:
        say(f"(the newest {format_count(limit, 'match', 'matches')}; use --limit for more)")
    return FINE if result.hits else FOUND


def _scope(home: Path, options: argparse.Namespace) -> Scope:
    return Scope(
        folders=folders_of(home, list_worktrees(find_cwd())) if options.here else None,
        session_id=session_id_of(find_readable(options.session)) if options.session else None,
        agents=not options.no_agents,
    )


def _search(home: Path, query: Query, options: argparse.Namespace) -> SearchHits:
    return search(
        home,
        query,
        _scope(home, options),
        limit=max(1, options.limit),
        use_index=not options.no_index,
    )


SHORT = 8


def _say_hits(result: SearchHits, query: Query) -> None:
    """Print the matches by session, with the matching words highlighted."""
    last = None
    for hit in result.hits:
        if hit.path != last:
            last = hit.path
            agent = f", subagent {hit.agent}" if hit.agent else ""
            place = ("quiet", f"  ({hit.cwd})")
            print_pieces(
                ("quiet", hit.session_id[:SHORT]), ("strong", f"  {hit.title}{agent}"), place
            )
        head = f"  {format_local_timestamp(hit.timestamp or '')} {(hit.uuid or '-')[:SHORT]} "
        print_pieces(("quiet", head), f"{hit.speaker}: ", *_highlight(hit.snippet, query))
    if not result.hits:
        say("no matches")
        return
    matches = format_count(len(result.hits), "match", "matches")
    sessions = format_count(len({hit.session_id for hit in result.hits}), "session")
    print_pieces(("quiet", f"{matches} in {sessions}"))


def _highlight(text: str, query: Query) -> Iterator[Piece]:
    patterns = [
        pattern_of(words, is_prefix=is_prefix).pattern
        for words, is_prefix in zip(query.phrases, query.prefix, strict=True)
    ]
    at = 0
    for match in re.finditer("|".join(patterns), text, re.IGNORECASE):
        yield text[at : match.start()]
        yield "match", match[0]
        at = match.end()
    yield text[at:]


def _say_unsearched(scope: Scope) -> None:
    """Warn about recovery files in the scope of a search, because they are not searched."""
    for session, copies in list_all_copies(find_home()).items():
        folder = str(choose.place_of_copy(find_home(), find_cwd(), session, copies[0]).parent)
        if scope.session_id in (None, session) and folder in (scope.folders or (folder,)):
            say_copies(session, copies, "the recovery file was not searched")


# `clew sessions tree`: the prompts of a session on all branches, and its forks.


def run_tree(options: argparse.Namespace) -> int:
    path = find_saved_part(options.session)
    session_tree = read_tree(path)
    if not options.json:
        for line in format_tree(session_tree):
            say(line)
        return FINE
    say_json(
        {
            "sessionId": path.stem,
            "forkedFrom": session_tree.forked_from,
            "prompts": [
                {
                    "uuid": prompt.uuid,
                    "text": prompt.text,
                    "timestamp": prompt.timestamp,
                    "depth": prompt.depth,
                    "messages": prompt.messages,
                    "live": prompt.live,
                    "summarized": prompt.is_summarized,
                }
                for prompt in session_tree.prompts
            ],
            "forks": session_tree.forks,
        }
    )
    return FINE


# `clew sessions stats`: statistics over all sessions.


SHOWN = 8


def run_stats(options: argparse.Namespace) -> int:
    say_closed(everywhere=True)
    with Bar("reading sessions") as bar:
        figures = compute_stats(find_home(), bar)
    if options.json:
        say_json(figures)
        return FINE
    unknown = " + unknown" if figures["unpricedResponses"] else ""
    say(
        f"{format_count(figures['sessions'], 'session')} and {format_count(figures['subagents'], 'subagent')}, {format_size(figures['sizeBytes'])}: "
        f"{format_count(figures['prompts'], 'prompt')}, {format_count(figures['responses'], 'response')}, {format_count(figures['tokens'], 'token')}, "
        f"${figures['knownCostUSD']:,.4f}{unknown}"
    )
    _table("models", "name", "responses", figures["models"])
    _table("tools", "name", "calls", figures["tools"])
    _table("projects", "cwd", "sessions", figures["projects"])
    return FINE


def _table(title: str, name: str, number: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        say(f"\n{title}")
    for row in rows[:SHOWN]:
        say(f"{row[number]:>9,}  {row[name]}")
    if len(rows) > SHOWN:
        say(f"{'':>9}  and {len(rows) - SHOWN} more")


# `clew sessions du`: disk usage.


def run_du(options: argparse.Namespace) -> int:
    say_closed(everywhere=True)
    folder_sizes = measure_sizes(find_home())
    total = sum(size.size_bytes for size in folder_sizes)
    if options.json:
        say_json(
            {
                "totalBytes": total,
                "parts": [
                    {"name": s.name, "path": s.path, "files": s.files, "sizeBytes": s.size_bytes}
                    for s in folder_sizes
                ],
            }
        )
        return FINE
    for size in sorted(folder_sizes, key=lambda size: -size.size_bytes):
        if size.files:
            say(
                f"{format_size(size.size_bytes):>9}  {format_count(size.files, 'file'):>12}  {size.name}  {size.path}"
            )
    say(f"{format_size(total):>9}  in total")
    return FINE


WORDS = {
    "show": GroupWord(run_show, SESSION, switch("--uuids", "Prefix each message with its UUID")),
    "search": GroupWord(
        run_search,
        argument("words", nargs="+", help='Words that must all occur; "a phrase"; prefix*'),
        OTHER_AGENTS,
        switch("--here", "Search only this folder and its worktrees"),
        argument(
            "--session", metavar="SESSION", help="Search only this session: ID, title or file"
        ),
        switch("--no-agents", "Skip subagents' transcripts"),
        argument(
            "--limit",
            type=int,
            default=20,
            metavar="N",
            help="Show at most N matches (default: 20)",
        ),
        switch("--no-index", "Search the files instead of the index"),
    ),
    "tree": GroupWord(run_tree, SESSION),
    "du": GroupWord(run_du),
    "stats": GroupWord(run_stats),
}
