"""List the sessions of a folder, of a repository's worktrees, or of all folders, newest first.

If there is no filter, only file metadata and the ends of the listed files are read. Data that
requires entire files (models, cost) comes from the database.
"""

import heapq
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from clew.core.json_object import Json
from clew.record.library.indexing import Tell, open_whole_index
from clew.record.library.places import (
    find_hidden_files,
    find_newest,
    in_folder,
    list_project_folders,
    list_transcripts,
    list_worktrees,
)
from clew.record.transcript import choose, light
from clew.record.transcript.paths import get_project_dir, resolve_folder
from clew.system.clock import format_stamp


class ListingFilter(Struct, frozen=True, kw_only=True):
    """The criteria for listed sessions; empty fields match everything.

    Times are ISO strings in local time, or in UTC with a Z.
    """

    branch: str = ""
    tag: str = ""
    team: str = ""
    since: str = ""
    until: str = ""
    model: str = ""
    cost_over: float | None = None
    title: str = ""

    @property
    def needs_database(self) -> bool:
        return bool(self.model) or self.cost_over is not None

    def fits(self, outline: light.Outline) -> bool:
        return (
            (not self.branch or outline.git_branch == self.branch)
            and (not self.tag or outline.tag == self.tag)
            and (not self.team or outline.team == self.team)
            and (not self.since or is_since(outline.modified_at, self.since))
            and (not self.until or is_until(outline.modified_at, self.until))
            and (not self.title or self.title.lower() in outline.title.lower())
        )


def is_since(modified_s: float, wish: str) -> bool:
    return format_stamp(modified_s, utc=wish.endswith("Z")) >= wish.removesuffix("Z")


def is_until(modified_s: float, wish: str) -> bool:
    """Return whether a time is not after `wish`.

    The times are compared at the precision of `wish`, so that a date includes its entire day.
    """
    until = wish.removesuffix("Z")
    return format_stamp(modified_s, utc=wish.endswith("Z"))[: len(until)] <= until


class Hidden(Struct, frozen=True, kw_only=True):
    """A file that no list shows, and the reason."""

    path: str
    size_bytes: int
    reason: str


def list_newest_first(
    home: Path, cwd: str, *, everywhere: bool, only: set[str] | None = None
) -> Iterator[light.Outline]:
    """Yield the outline of each session once, newest first; the files are read on demand.

    Without `everywhere`, the sessions of the current folder and of its repository's other worktrees
    are included. `only` restricts the result to these session IDs.
    """
    cwds = list_worktrees(cwd)
    folders = (
        list_project_folders(home)
        if everywhere
        else dict.fromkeys(str(get_project_dir(home, resolve_folder(place))) for place in cwds)
    )
    return heapq.merge(
        _outlines(find_newest(folders), cwds, only, everywhere=everywhere),
        sorted(choose.list_unsaved(home, cwd, everywhere=everywhere), key=_age),
        key=_age,
    )


def _outlines(
    files: Iterator[str],
    cwds: tuple[str, ...],
    only: set[str] | None,
    *,
    everywhere: bool,
) -> Iterator[light.Outline]:
    folders = [resolve_folder(place) for place in cwds]
    for path in files:
        name = path.rpartition("/")[2][:-6]
        if not light.is_uuid(name) or (only is not None and name not in only):
            continue
        outline = light.read_outline(Path(path))
        if outline is not None and (
            everywhere or outline.cwd is None or choose.is_any(outline.cwd, folders)
        ):
            yield outline


def _age(outline: light.Outline) -> float:
    return -outline.modified_at


def list_hidden(home: Path, cwd: str, *, everywhere: bool) -> Iterator[Hidden]:
    """Yield every file in the session folders that no list shows."""
    files = (
        list_transcripts(home)
        if everywhere
        else in_folder(str(get_project_dir(home, resolve_folder(cwd))))
    )
    folders = [resolve_folder(place) for place in list_worktrees(cwd)]
    for file in files:
        if file.agent:
            continue
        outline = light.read_outline(Path(file.path))
        reason = find_hidden_files(file, outline)
        if reason is None and not everywhere and outline and outline.cwd:
            is_mine = choose.is_any(outline.cwd, folders)
            reason = None if is_mine else f"belongs to {outline.cwd}"
        if reason is not None:
            yield Hidden(path=file.path, size_bytes=file.size, reason=reason)


def select_fitting(home: Path, wanted: ListingFilter, tell: Tell | None = None) -> set[str]:
    """Return the IDs of the sessions with the wanted model and more than the wanted cost.

    The database is updated first.
    """
    with open_whole_index(home, tell) as connection:
        rows = connection.execute(
            "SELECT session_id FROM charge JOIN file ON file.id = charge.file GROUP BY session_id"
            " HAVING max(instr(model, ?)) > 0 AND total(usd) > ?",
            (wanted.model, -1.0 if wanted.cost_over is None else wanted.cost_over),
        )
        return {session_id for (session_id,) in rows}


# Statistics over all sessions, from the database: counts, sizes, costs, models, tools and days.


# A response is counted once even if several files contain it, as after a fork.
_ONCE = "(SELECT message, request, model, at, max(usd) AS usd, max(tokens) AS tokens FROM charge GROUP BY message, request)"


def compute_stats(home: Path, tell: Tell | None = None) -> Json:
    """Update the index, and return the statistics over all sessions as one object."""
    with open_whole_index(home, tell) as connection:
        run = connection.execute
        sessions, prompts, size = run(
            "SELECT count(*), total(prompts), total(size) FROM file WHERE agent IS NULL AND hidden IS NULL"
        ).fetchone()
        agents = run("SELECT count(*) FROM file WHERE agent IS NOT NULL").fetchone()[0]
        entries, bad = run("SELECT total(entries), total(bad_lines) FROM file").fetchone()
        usd, unpriced, tokens, responses = run(
            f"SELECT total(usd), count(*) - count(usd), total(tokens), count(*) FROM {_ONCE}"
        ).fetchone()
        return {
            "sessions": sessions,
            "subagents": agents,
            "prompts": int(prompts),
            "entries": int(entries),
            "sizeBytes": int(size),
            "unreadLines": int(bad),
            "responses": responses,
            "tokens": int(tokens),
            "knownCostUSD": round(usd, 6),
            "unpricedResponses": unpriced,
            "models": [
                {
                    "name": name,
                    "responses": count,
                    "tokens": int(used),
                    "knownCostUSD": round(cost, 6),
                }
                for name, count, used, cost in run(
                    f"SELECT model, count(*), total(tokens), total(usd) FROM {_ONCE}"
                    " GROUP BY model ORDER BY 3 DESC"
                )
            ],
            "tools": [
                {"name": name, "calls": calls}
                for name, calls in run(
                    "SELECT name, sum(calls) FROM tool GROUP BY name ORDER BY 2 DESC, 1"
                )
            ],
            "projects": [
                {"cwd": cwd, "sessions": count, "prompts": int(prompt_count)}
                for cwd, count, prompt_count in run(
                    "SELECT coalesce(cwd, folder), count(*), total(prompts) FROM file WHERE agent IS NULL"
                    " AND hidden IS NULL GROUP BY 1 ORDER BY 2 DESC, 1"
                )
            ],
            "days": [
                {"day": day, "responses": count, "tokens": int(used)}
                for day, count, used in run(
                    f"SELECT substr(at, 1, 10), count(*), total(tokens) FROM {_ONCE}"
                    " GROUP BY 1 ORDER BY 1"
                )
            ],
        }
