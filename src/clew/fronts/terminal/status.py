"""The status line: model, mode, remaining context, cost, folder and tasks, or the user's own line.

Values are read from the session when they are needed. The command in the `statusLine` setting runs
when values that it may show have changed, but never while the user is typing.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.agent.events import Compacting, EngineEvent, HookStarted, ToolFinished, ToolStarted
from clew.core.json_object import Json
from clew.core.ledger.ledger import Spend
from clew.core.messages.text import format_duration, format_tokens
from clew.core.messages.views import Usage
from clew.core.stream.events import (
    InputDelta,
    MessageFinished,
    TextDelta,
    ThinkingDelta,
    UsageChanged,
)
from clew.fronts.render.rows import (
    Line,
    Row,
    Span,
    clip_spans,
    escape_controls,
    format_row,
    join_lines,
    width_of,
)
from clew.fronts.render.stories import (
    describe_failure,
    describe_retry,
    format_attempt,
)
from clew.fronts.render.theme import Theme
from clew.fronts.terminal.agents import KIND
from clew.parts.recording import read_branch
from clew.permissions.modes import describe_mode
from clew.providers.answer_events import Asking, FellBack, HeldByRateLimit, Retrying, Waiting
from clew.session.session import Session
from clew.system.config.settings import read_object
from clew.system.process.run import Programs
from clew.version import VERSION

# The line above the prompt during a turn: elapsed time, tokens, and what it waits for.


FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_S = 0.2
# The minimum width of the current activity, in cells, if the window is too narrow for all of it.
MIN_WORDS = 10
# Estimated characters per token of a response that is still streaming.
CHARACTERS = 4


class Working:
    """The progress of one turn, shown as a line above the prompt.

    `describe_wait` returns what clew waits for before the first request, or an empty string.
    """

    def __init__(self, now_s: float, describe_wait: Callable[[], str] = str) -> None:
        self._began_s = now_s
        self._describe_wait = describe_wait
        self._said_tokens = 0
        self._characters = 0
        self._doing = ""
        # The end of the current wait, and its reason.
        self._until_s = 0.0
        self._why = self._attempt = ""
        self._silent_since_s = 0.0
        self._given_up_s = 0.0
        self.is_stopping = False
        self._running: set[str] = set()

    def heed(self, event: EngineEvent, now_s: float) -> None:
        """Update the line for an event."""
        match event:
            case TextDelta():
                self._came("Responding", len(event.text))
            case ThinkingDelta():
                self._came("Thinking", len(event.thinking))
            case InputDelta():
                self._came("Preparing a tool call", len(event.partial_json))
            case Asking():
                self._came("Waiting for the model", 0)
            case ToolStarted():
                self._running.add(event.block["id"])
            case ToolFinished():
                self._running.discard(event.block["id"])
            case UsageChanged():
                self._counted(event.usage)
            case Compacting():
                self._came("Compacting", 0)
            case HookStarted() if event.status:
                self._doing = join_lines(event.status)
            case MessageFinished():
                self._doing = ""
            case Waiting():
                self._silent_since_s = now_s - event.silent_s
                self._given_up_s = self._silent_since_s + event.limit_s
            case Retrying():
                self._wait(describe_failure(event.failure), event.delay_s, now_s)
                self._attempt = format_attempt(event)
            case HeldByRateLimit():
                self._wait("Rate limited", event.delay_s, now_s)
            case FellBack():
                self._why = f"{describe_failure(event.failure)}; switching to {event.model}"

    def _came(self, doing: str, characters: int) -> None:
        self._doing = doing
        self._characters += characters
        self._silent_since_s = self._until_s = 0.0
        self._why = ""

    def _counted(self, usage: dict[str, Any]) -> None:
        count = usage.get("output_tokens")
        if isinstance(count, int) and count * CHARACTERS >= self._characters:
            self._said_tokens += count
            self._characters = 0

    def _wait(self, why: str, delay_s: float, now_s: float) -> None:
        self._why, self._until_s, self._attempt = why, now_s + delay_s, ""

    def line(self, now_s: float, width: int, theme: Theme) -> Line:
        mark = FRAMES[int((now_s - self._began_s) / FRAMES_S) % len(FRAMES)]
        what, more = self._what(now_s)
        rest = [format_duration(now_s - self._began_s)]
        if tokens := self._said_tokens + self._characters // CHARACTERS:
            rest.append(f"{format_tokens(tokens)} tokens")
        rest.append("interrupting" if self.is_stopping else "esc to interrupt")
        # In a narrow window, the figures are left out first; then the activity is shortened.
        begin = [Span(f"{mark} ", theme["running"]), Span(what), Span(more)]
        while len(rest) > 1 and width_of(begin) + len(", ".join(rest)) + 4 > width:
            del rest[-2]
        end = [Span(more), Span(f"  ({', '.join(rest)})", theme["quiet"])]
        room = max(MIN_WORDS, width - 2 - width_of(end))
        return format_row(clip_spans([begin[0], *clip_spans([Span(what)], room), *end], width))

    def _what(self, now_s: float) -> tuple[str, str]:
        """Return the current activity, and details about it.

        In a narrow window, the activity is shortened before the details.
        """
        if self._until_s > now_s:
            return self._why, describe_retry("", self._until_s - now_s, self._attempt)
        if self._silent_since_s:
            silent, limit = now_s - self._silent_since_s, self._given_up_s - now_s
            return f"No data for {silent:.0f} s", f"; timing out in {max(0, limit):.0f} s"
        if self._why:
            return self._why, ""
        if self._running:
            many = len(self._running) > 1
            return f"Running {len(self._running)} tools" if many else "Running", ""
        return self._doing or join_lines(self._describe_wait()) or "Working", ""


COMMAND_S = 5.0
# From this many tokens on, some models cost more.
LONG_TOKENS = 200_000
COLOR = re.compile(r"(\x1b\[[0-9;:]*m)")
SHOWN_LINES = 3
MODE_PARTS = {
    "plan": "heading",
    "acceptEdits": "running",
    "auto": "running",
    "bypassPermissions": "error",
}
TITLE_CHARACTERS = 30


class Item(Struct, frozen=True):
    """One value of the status line.

    In a narrow terminal, items with a higher `rank` are left out first; those with rank 0 never
    are.
    """

    words: str
    style: str
    rank: int = 0
    separator: str = " · "


def fit_items(items: Sequence[Item], width: int) -> tuple[Row, bool]:
    """Return the items as a row, and whether the row fits without cutting an item of rank 0."""
    left = [item for item in items if item.words]
    while True:
        row: Row = [Span("  ")]
        for number, item in enumerate(left):
            row.append(Span(f"{item.separator if number else ''}{item.words}", item.style))
        rank = max((item.rank for item in left), default=0)
        if width_of(row) <= width or not rank:
            return clip_spans(row, width), width_of(row) <= width
        left = [item for item in left if item.rank < rank]


def find_last_usage(session: Session) -> Usage | None:
    """Return the usage of the last response, or None if there is none yet."""
    history = session.story.history
    for at in range(len(history) - 1, -1, -1):
        message = history[at].get("message")
        if history[at].get("type") == "assistant" and isinstance(message, dict):
            usage = Usage(message.get("usage") or {})
            if usage.total_input_tokens:
                return usage
    return None


class Status:
    """The status line. `_own` is the last output of the user's `statusLine` command."""

    def __init__(self, session: Session, programs: Programs, *, cycle_key: str = "") -> None:
        """Create the status line; `cycle_key` switches to the next permission mode."""
        self._session = session
        self._programs = programs
        self._cycle_key = cycle_key
        self._began_s = time.monotonic()
        self._folder = self._branch = ""
        # The usage of the last response, and the tokens that the next request starts with.
        self._usage: Usage | None = None
        self._used = 0
        self._own: list[str] = []
        self._asking: asyncio.Lock = asyncio.Lock()
        self._is_wanted = False
        # Returns the state of the connection to viewers elsewhere.
        self.remote: Callable[[], str] = str
        self.look()

    def look(self) -> None:
        """Reread the values that change only between turns."""
        cwd, home = (
            self._session.workspace.cwd,
            self._session.rules.standing.environ.get("HOME", ""),
        )
        branch = read_branch(Path(cwd))
        self._folder = join_lines(at_home(cwd, home))
        self._branch = "" if branch == "HEAD" else join_lines(branch)
        self._usage = usage = find_last_usage(self._session)
        self._used = usage.total_input_tokens + usage.output_tokens if usage is not None else 0

    # -- the default line

    def lines(self, width: int, theme: Theme, *, notice: str = "", editing: str = "") -> list[Line]:
        """Return the status line, preceded by warnings about data that could not be saved.

        `notice` is shown next to the status line or, if it does not fit, below it. `editing` is the
        name of vim's mode.
        """
        unsaved = [
            format_row(
                clip_spans([Span(f"  ! {join_lines(trouble.in_short)}", theme["error"])], width)
            )
            for trouble in self._session.story.recorder.troubles
        ]
        editor = Item(editing, theme["heading"])
        hint, tasks = Item(notice, theme["notice"], 0, "   "), Item(self._running(), theme["quiet"])
        remote = Item(self.remote(), theme["quiet"])
        if self._own:
            mode = self._mode(theme) if self._session.mode != "default" else []
            beside = [editor, *mode, remote, hint]
            rows = fit_rows(beside, width) if any(item.words for item in beside) else []
            return [*unsaved, *self._own, *rows]
        return [*unsaved, *fit_rows([editor, *self._items(theme), tasks, remote, hint], width)]

    def _mode(self, theme: Theme) -> list[Item]:
        mode = self._session.mode
        name = Item(describe_mode(mode), theme[MODE_PARTS.get(mode, "quiet")])
        if mode == "default" or not self._cycle_key:
            return [name]
        return [name, Item(f"({self._cycle_key} to cycle)", theme["quiet"], 3, " ")]

    def _items(self, theme: Theme) -> list[Item]:
        session, quiet = self._session, theme["quiet"]
        left, total = left_percent(self._used, session.model.context_window), session.ledger().total
        return [
            Item(join_lines(session.model.name), quiet),
            *self._mode(theme),
            Item(f"{left}% context left" if left is not None else "", quiet, 1),
            Item(format_cost(total), quiet, 2),
            Item(join_lines(session.parts.ide.describe()), quiet, 3),
            Item(self._folder, quiet, 5),
            Item(self._branch, quiet, 4),
        ]

    def _running(self) -> str:
        """Return the title of the first background task and how many more run; empty without any.

        Subagents don't count, because they have separate rows.
        """
        running = [
            task
            for task in self._session.parts.tasks.running
            if task.is_background and task.kind != KIND
        ]
        if not running:
            return ""
        first = join_lines(running[0].title)[:TITLE_CHARACTERS]
        rest = f" and {len(running) - 1} more" if len(running) > 1 else ""
        return f"running: {first}{rest}"

    # -- the user's own line

    async def ask(self) -> bool:
        """Run the user's `statusLine` command, if one is set; return whether the line changed."""
        session = self._session
        setting = read_object(session.rules.standing.settings, "statusLine")
        command = setting.get("command")
        if not isinstance(command, str):
            before, self._own = self._own, []
            return before != []
        if self._is_wanted:
            return False  # another run is already waiting
        self._is_wanted = True
        async with self._asking:
            self._is_wanted = False
            before = self._own
            printed = await self._programs.printed(
                ["sh", "-c", command],
                data=json.dumps(self.told(session)).encode(),
                timeout_s=COMMAND_S,
            )
            pad = setting.get("padding")
            self._own = own_lines(printed or b"", pad if isinstance(pad, int) else 0)
            return self._own != before

    def told(self, session: Session) -> Json:
        """Return the session's data as the input of the user's command."""
        total, state = session.ledger().total, session.costs.spending.state
        window, tokens = session.model.context_window, total.tokens
        left, usage = left_percent(self._used, window), self._usage
        written = tokens.cache_write_5m + tokens.cache_write_1h
        return {
            "hook_event_name": "Status",
            "session_id": session.session_id,
            "transcript_path": str(session.story.recorder.transcript),
            "cwd": session.workspace.cwd,
            "model": {"id": session.model.id, "display_name": session.model.name},
            "workspace": {
                "current_dir": session.workspace.cwd,
                "project_dir": str(session.rules.standing.places.root),
            },
            "version": VERSION,
            "permission_mode": session.mode,
            "cost": {
                "total_cost_usd": float(total.usd),
                "total_duration_ms": round((time.monotonic() - self._began_s) * 1000),
                "total_api_duration_ms": round(session.costs.past.api_ms + state.api_ms),
                "total_lines_added": session.costs.past.lines_added + state.lines_added,
                "total_lines_removed": session.costs.past.lines_removed + state.lines_removed,
                "total_commits": session.costs.past.commits + state.commits,
                "total_pull_requests": session.costs.past.pull_requests + state.pull_requests,
            },
            "context_window": {
                "context_window_size": window,
                "total_input_tokens": tokens.input + written + tokens.cache_read,
                "total_output_tokens": tokens.output,
                "current_usage": None if usage is None else describe_usage(usage),
                "used_tokens": self._used,
                "used_percentage": None if left is None else 100 - left,
                "remaining_percentage": left,
            },
            "exceeds_200k_tokens": self._used > LONG_TOKENS,
            "output_style": {"name": session.parts.output_styles.named},
        }


def describe_usage(usage: Usage) -> Json:
    """Return the tokens of a response under the names that status line programs read."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
    }


def fit_rows(items: Sequence[Item], width: int) -> list[Line]:
    """Return the items on one row or, if they do not fit, the last ones on separate rows."""
    row, fits = fit_items(items, width)
    last = next((at for at in range(len(items) - 1, -1, -1) if items[at].words), 0)
    if fits or not last:
        return [format_row(row)]
    return [*fit_rows(items[:last], width), format_row(fit_items([items[last]], width)[0])]


def format_cost(total: Spend) -> str:
    """Format a cost. A plus sign means that the cost lacks requests whose price is unknown."""
    if not total.requests:
        return ""
    return f"${total.usd:.4f}{'' if total.is_complete else '+?'}"


def at_home(folder: str, home: str) -> str:
    """Return a folder's path, with `~` in place of the home folder."""
    is_below = bool(home) and Path(folder).is_relative_to(home)
    return str(Path("~", Path(folder).relative_to(home))) if is_below else folder


def left_percent(used: int, window: int | None) -> int | None:
    if not window or not used:
        return None
    return max(0, round(100 * (window - used) / window))


def own_lines(printed: bytes, pad: int) -> list[str]:
    """Return the output of the user's command, with colors but no other escape sequences."""
    text = printed.decode("utf-8", "replace").strip("\n")
    rows: Sequence[str] = text.split("\n")[:SHOWN_LINES] if text else ()
    return [" " * max(0, min(pad, 20)) + colored(row) for row in rows]


def colored(text: str) -> str:
    """Escape the control characters in the text, except sequences that set colors."""
    parts = COLOR.split(text)
    return "".join(part if at % 2 else escape_controls(part) for at, part in enumerate(parts))
