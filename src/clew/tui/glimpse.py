"""What a session is about, before it is gone on with: where it was, and how it ended. Reads the file's end alone."""

from pathlib import Path
from typing import Any, TypeAlias

from clew.config.clock import here
from clew.messages.counts import size_of
from clew.messages.encoding import decode
from clew.transcript.light import Outline, read_ends
from clew.tui.render.folding import Folds
from clew.tui.render.look import Look
from clew.tui.render.recalled import recalled
from clew.tui.render.rows import Line, Span, clipped, line
from clew.tui.render.safe import one_line

Json: TypeAlias = dict[str, Any]
SHOWN_ROWS = 200
SAID = ("user", "assistant", "system")


def when(one: Outline) -> str:
    return here(one.modified_at)


def glimpse(one: Outline, look: Look) -> list[Line]:
    """A line about the session, and the end of what was said in it."""
    branch = "" if one.git_branch == "HEAD" else one.git_branch
    facts = (below_home(one.cwd or ""), branch, one.tag, size_of(one.size_bytes))
    about = one_line(" · ".join(filter(None, [*facts, one.session_id[:8]])))
    said = recalled(ending(one), SHOWN_ROWS, look, Folds(""))
    return [line(clipped([Span(about, look.theme["quiet"])], look.width)), *said]


def below_home(folder: str) -> str:
    """A folder as a person names it."""
    home = str(Path("~").expanduser())
    return f"~{folder[len(home) :]}" if f"{folder}/".startswith(f"{home}/") else folder


def ending(one: Outline) -> list[Json]:
    """The last messages of the file, as far as its end holds them whole."""
    ends = read_ends(one.path)
    found = []
    for text in (ends.tail if ends is not None else b"").split(b"\n"):
        try:
            entry = decode(text)
        except ValueError:
            continue  # the line that the cut went through, or a damaged one
        if type(entry) is dict and entry.get("type") in SAID and not entry.get("isSidechain"):
            found.append(entry)
    return found
