"""The sessions that are there, as an editor lists them: newest first, a page at a time."""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from clew.config.paths import find_places
from clew.library.listing import newest_first
from clew.transcript.light import Outline

Json: TypeAlias = dict[str, Any]


def page(environ: Mapping[str, str], cwd: str, begin: int, count: int) -> list[Json]:
    """`cwd`: of this folder alone; empty: of all."""
    home = find_places(environ, Path(cwd or Path.cwd())).config_home
    found = (
        outline
        for outline in newest_first(home, cwd or "/", everywhere=not cwd)
        if outline.cwd is not None and (not cwd or outline.cwd == cwd)
    )
    return [told(outline) for outline in islice(found, begin, begin + count)]


def told(outline: Outline) -> Json:
    moment = datetime.fromtimestamp(outline.modified_at, UTC).isoformat(timespec="seconds")
    return {
        "sessionId": outline.session_id,
        "cwd": outline.cwd,
        "title": outline.title,
        "updatedAt": moment.replace("+00:00", "Z"),
    }
