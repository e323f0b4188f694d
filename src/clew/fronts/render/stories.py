"""Render one tool call from start to result: title, hook messages, progress and result.

A running call is shown as a few rows that change. A finished call is printed once, in full. Does no
I/O.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from clew.agent.events import (
    Compacted,
    Compacting,
    Doubted,
    EngineEvent,
    FromAgent,
    HookFinished,
    HookStarted,
    NotCompacted,
    Noticed,
    NotSaved,
    Recorded,
    Repaired,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from clew.core.json_object import Json
from clew.core.ledger.ledger import Spend
from clew.core.messages.messages import SystemMessage, UserMessage
from clew.core.messages.text import (
    describe_notification,
    format_count,
    format_duration,
    format_tokens,
)
from clew.core.normalize.repairs import describe_repairs
from clew.core.stream.events import MessageFinished, TextDelta, ThinkingDelta
from clew.core.stream.json_pieces import InputBuffer
from clew.fronts.render.folding import Folds, lines_of
from clew.fronts.render.results import AGENTS, PATH_TOOLS, ToolResultView, describe_report
from clew.fronts.render.results import render_result as result_lines
from clew.fronts.render.rows import (
    GUTTER,
    Line,
    Row,
    Span,
    clip_spans,
    escape_controls,
    format_row,
    join_lines,
    mark_rows,
    wrap_spans,
)
from clew.fronts.render.theme import Look
from clew.providers.answer_events import FellBack, HeldByRateLimit, Retrying, Waiting, Withdrawn
from clew.providers.base import Failure

# A running subagent as one live line: its name, number of calls and current action.


# The most characters of the agent's text to keep, enough for a line.
SAID_CHARACTERS = 200


class AgentLine:
    """The live line of a running subagent. `call_id` identifies the call that started it."""

    def __init__(self, agent_event: FromAgent) -> None:
        self.call_id = agent_event.tool_use_id
        self.name = join_lines(": ".join(filter(None, (agent_event.kind, agent_event.description))))
        self.calls = 0
        self.is_done = False
        self._doing = ""
        self._said = ""
        self._names_paths = False

    @property
    def counted(self) -> str:
        return format_count(self.calls, "tool call")

    def heed(self, agent_event: FromAgent) -> None:
        """Update the line for an event of the subagent."""
        event, self.is_done = agent_event.event, False
        match event:
            case ToolStarted():
                self.calls += 1
                self._doing, self._said = event.title, ""
                self._names_paths = event.block.get("name") in PATH_TOOLS
            case ToolFinished():
                self._doing = ""
            case TextDelta():
                self._said = (self._said + event.text)[-SAID_CHARACTERS:]
            case ThinkingDelta():
                self._said = "thinking"
            case MessageFinished():
                self.is_done = event.ending == "turn"
                self._said = ""

    def live(self, look: Look) -> Row:
        last_line = self._said.strip().rpartition("\n")[2]
        doing = look.folders.shorten(self._doing) if self._names_paths else self._doing
        parts = (self.counted if self.calls else "", join_lines(doing or last_line))
        beside = "".join(f" · {part}" for part in parts if part)
        mark = Span("↳ ", look.theme["running"])
        return clip_spans([mark, Span(self.name), Span(beside, look.theme["quiet"])], look.width)


# Other events of the engine, in a sentence each.


NEWS_CHARACTERS = 200
# How the turns that the user ended are reported.
STOPPED: dict[str, str] = {
    "aborted_streaming": "Interrupted",
    "aborted_tools": "Interrupted",
    "denied_and_stopped": "",
    "left": "Moved to the background",
}
# Reasons whose message is complete on its own.
_SAID = frozenset({"api_error", "failed"})
# What the user can do when a turn ended for these reasons.
_REMEDIES = {
    "prompt_too_long": "Run /compact, or go back with /rewind.",
    "refused": "Rephrase the prompt, or go back with /rewind.",
}
# Failures that need no details: their names by HTTP status.
_FAILURES = {429: "Rate limited", 529: "API overloaded"}
# How a connection broke off, in the words of the transport, tells most users nothing.
_LOST = frozenset({"reset", "truncated"})


def describe_event(event: EngineEvent) -> Iterator[str]:
    """Yield the text that reports an event; nothing if the user does not need to know of it."""
    match event:
        case Retrying():
            yield describe_retry(
                describe_failure(event.failure), event.delay_s, format_attempt(event)
            )
        case HeldByRateLimit():
            yield describe_retry("Rate limited", event.delay_s)
        case FellBack():
            yield f"{describe_failure(event.failure)}; switching to {event.model}"
        case Withdrawn():
            yield "The response above was cut off; restarting it"
        case HookStarted() if event.status:
            yield event.status
        case NotSaved() | Noticed():
            yield from event.messages
        case Recorded():
            yield from filter(None, map(describe_news, event.entries))
        case Compacting():
            yield "Compacting the conversation"
        case Compacted():
            yield f"Compacted: {event.message}"
        case NotCompacted(trigger="auto"):
            yield f"Compaction failed: {event.message}"
        case Repaired():
            mended = describe_repairs(event.repairs)
            if mended:
                yield mended
        case Doubted():
            yield doubted(event)


def describe_failure(failure: Failure) -> str:
    """Describe a failed request in a few words."""
    if failure.kind in _LOST:
        return "Connection lost"
    name = _FAILURES.get(failure.status or 0)
    return failure.message if name is None else f"{name} ({failure.status})"


def describe_retry(why: str, delay_s: float, attempts: str = "") -> str:
    """Describe the wait before a request is sent again."""
    return f"{why}. Retrying in {max(1, delay_s):.0f} s{attempts}"


def format_attempt(event: Retrying) -> str:
    """Return the number of the next attempt, and the maximum number if there is one."""
    most = f" of {event.max_attempts}" if event.max_attempts else ""
    return f" (attempt {event.attempt + 1}{most})"


def describe_news(entry: dict[str, Any]) -> str:
    """Return the text of a message that brings the model news from background tasks.

    Return an empty string for any other message. The news is shown so that the user
    understands how the model reacts.
    """
    if entry.get("type") != "user" or not (message := UserMessage(entry)).is_news:
        return ""
    return join_lines(describe_notification(message.text))[:NEWS_CHARACTERS]


def describe_waiting(event: Waiting) -> str:
    return f"No data for {event.silent_s:.0f} s; timing out at {event.limit_s:.0f} s"


def doubted(event: Doubted) -> str:
    """Describe a request that the API may reject, and say whether it was sent."""
    faults = "; ".join(f"{v.where}: {v.what}" for v in event.violations[:3])
    if event.is_held:
        return f"Request not sent; the API would reject it: {faults}"
    return f"Request sent, but the API may reject it: {faults}"


def describe_closing(ended: TurnEnded) -> str:
    if ended.reason in STOPPED:
        return STOPPED[ended.reason]
    if ended.reason == "stopped_by_hook":
        return ended.message if ended.is_blocked else f"Stopped by hook: {ended.message}"
    if not ended.is_error:
        return ""
    what = ended.reason.replace("_", " ")
    if not ended.message:
        return what
    if (remedy := _REMEDIES.get(ended.reason)) is not None:
        return f"{ended.message[0].upper()}{ended.message[1:].rstrip('.')}. {remedy}"
    return ended.message if ended.reason in _SAID else f"{what}: {ended.message}"


def describe_note(entry: dict[str, Any]) -> str:
    """Describe a system entry for the screen; empty if it is not shown."""
    match entry.get("subtype"):
        case "turn_duration":
            lasted_ms = SystemMessage(entry).duration_ms
            return f"Done in {format_duration(lasted_ms / 1000)}" if lasted_ms else ""
        case "memory_saved":
            paths = entry.get("writtenPaths")
            return (
                f"Memory saved in {', '.join(map(str, paths))}" if isinstance(paths, list) else ""
            )
        case "agents_killed":
            return SystemMessage(entry).content or ""
        case _:
            return ""


def describe_turn(lasted_s: float, spend: Spend) -> str:
    """Describe a finished turn: its time, the tokens that models wrote, and the cost.

    The figures come from the ledger and include subagents. The cost of a model whose price is
    unknown is not included.
    """
    words = [f"Done in {format_duration(max(1.0, lasted_s))}"]
    words.append(f"{format_tokens(spend.tokens.output)} tokens")
    if spend.usd or spend.is_complete:
        words.append(f"${spend.usd:.4f}{'' if spend.is_complete else '+?'}")
    return " · ".join(words)


# The rows of a running call's output.
PROGRESS_ROWS = 3
# The parameter that describes a call; the first one present is used.
_TELLING = ("file_path", "notebook_path", "pattern", "path", "url", "query", "subject", "description",
            "command", "prompt", "skill", "task_id")  # fmt: skip
_TITLE_CHARACTERS = 300
BLANKS = " \t\n"


# Tools whose names mean nothing to a user, with the names that are shown instead.
_SHOWN_NAMES = {
    "AskUserQuestion": "Question",
    "EnterPlanMode": "Plan mode",
    "ExitPlanMode": "Plan",
    "TodoWrite": "Todos",
}


def title_of(block: Json) -> str:
    """Return a title based only on the call, for calls whose tool is not available."""
    name, arguments = join_lines(str(block.get("name", ""))), block.get("input")
    words = (
        [arguments[k] for k in _TELLING if isinstance(arguments.get(k), str)]
        if isinstance(arguments, dict)
        else []
    )
    first = join_lines(words[0][:_TITLE_CHARACTERS]) if words else ""
    return f"{name}: {first}" if first else name


def render_stopped(look: Look, more: str = "") -> Line:
    """Return the line that is shown below an interrupted call."""
    return format_row([Span(f"{GUTTER}Interrupted{more}", look.theme["quiet"])])


class CallStory:
    """One tool call, and the subagents that it started."""

    def __init__(self, block: Json) -> None:
        self.block = block
        self.title = title_of(block)
        self.state = "writing"
        self._input = InputBuffer()
        self.progress = ""
        self.agents: list[AgentLine] = []
        self._hooks: list[tuple[str, str]] = []

    def writes(self, piece: str) -> None:
        """Add a piece of the input that is still being received."""
        self._input.append(piece)

    def ready(self, block: Json) -> None:
        """Record the call's input, which has been received in full."""
        self.block, self.title, self.state = block, title_of(block), "waiting"
        self._input = InputBuffer()

    def runs(self, block: Json, title: str) -> None:
        """Record that the call is running.

        `title` is the title that the tool gives the call. If it is empty, a title is made from the
        input.
        """
        self.ready(block)
        self.state = "running"
        if title not in ("", block.get("name")):
            self.title = join_lines(title)

    @property
    def is_agent(self) -> bool:
        """Return whether the call runs a subagent."""
        return self.state == "running" and self.block.get("name") in AGENTS

    def conclude(self, entry: Json, look: Look, folds: Folds) -> None:
        """Record the result.

        The title of a finished subagent then describes its work; its report is collapsed.
        """
        answer = ToolResultView(str(self.block.get("name", "")), self.title, entry)
        work = "" if look.says_who else describe_report(answer, look, folds)
        if work:
            self.title = f"{self.title.removeprefix(f'{answer.name}: ')} · {work}"

    def hook(self, finished: HookFinished) -> None:
        """Record the result of a hook; successful hooks without output are not mentioned."""
        ran = finished.ran
        words = join_lines(ran.trouble or (ran.stderr if ran.exit_code else ""))
        if words or finished.outcome != "success":
            notice = f"{finished.name} hook {finished.outcome}: {words or finished.title}"
            self._hooks.append((words, notice))

    def answer(self, entry: Json, display: str, look: Look, *, is_seen: bool) -> ToolResultView:
        """Return the result of the finished call."""
        name, title = str(self.block.get("name", "")), self.titled(look)
        return ToolResultView(name, title, entry, display, folders=look.folders, is_seen=is_seen)

    def titled(self, look: Look) -> str:
        """Return the title with the tool's display name; shorten paths if the tool names files."""
        name = str(self.block.get("name", ""))
        if name in _SHOWN_NAMES:
            return _SHOWN_NAMES[name] + self.title.removeprefix(name)
        return look.folders.shorten(self.title) if name in PATH_TOOLS else self.title

    @property
    def has_more(self) -> bool:
        """True if hooks or subagents have something to show with the result."""
        return bool(self._hooks or self.agents)

    def told(self, answer: ToolResultView, look: Look, folds: Folds) -> list[Line]:
        """Return the lines below the title of a finished call."""
        inner = look.narrowed(len(GUTTER))
        below = [format_row(row) for row in self._beside(inner, answer)] + result_lines(
            answer, inner, folds
        )
        return [GUTTER + row if row else "" for row in below]

    def head(self, look: Look, *, is_error: bool = False) -> list[Line]:
        mark = Span("✗ ", look.theme["error"]) if is_error else Span("● ", look.theme["done"])
        rows = wrap_spans([Span(self.titled(look), look.theme["tool"])], look.width - len(GUTTER))
        return [format_row(row) for row in mark_rows(mark, rows)]

    def stopped(self, look: Look, folds: Folds) -> list[Line]:
        """Return the lines of an interrupted call: its command and its output so far, collapsed."""
        lines = lines_of(self.progress)
        command = self._command(look.narrowed(len(GUTTER)))

        def whole(width: int) -> Iterator[Row]:
            for line in lines:
                text = escape_controls(line.expandtabs(8))
                yield from wrap_spans([Span(text, look.theme["quiet"])], width)

        more = f" · {format_count(len(lines), 'line')}{folds.keep(self.title, whole)}"
        return [
            *self.head(look, is_error=True),
            *(GUTTER + format_row(row) for row in command),
            render_stopped(look, more if lines else ""),
        ]

    def live(self, look: Look) -> list[Line]:
        """Return the rows that show a running call; they change until the call ends."""
        theme = look.theme
        rows: list[Row] = [self._now(look)]
        inner = look.narrowed(len(GUTTER))
        if self.state == "running":
            # Show the command itself, not only the model's description of it.
            rows += ([Span(GUTTER), *row] for row in islice(self._command(inner), 1))
        rows += ([Span(GUTTER), *agent.live(inner)] for agent in self.agents)
        for words in lines_of(self.progress)[-PROGRESS_ROWS:]:
            text = escape_controls(words[-4 * look.width :].expandtabs(8))
            rows.append([Span(GUTTER), *clip_spans([Span(text, theme["quiet"])], inner.width)])
        return [format_row(row) for row in rows]

    def _now(self, look: Look) -> Row:
        state = {"waiting": " (waiting)", "writing": " …"}.get(self.state, "")
        if self.state == "writing":
            self.title = title_of(self.block | {"input": self._input.preview().value})
            if self._input.characters > 1000:
                state = f" … {self._input.characters // 1000:,} kB"
        mark = Span("○ ", look.theme["running"])
        return clip_spans([mark, Span(self.titled(look), look.theme["tool"]), Span(state, look.theme["quiet"])],
                       look.width)  # fmt: skip

    def _beside(self, look: Look, answer: ToolResultView) -> Iterator[Row]:
        """Yield the rows between title and result: the command and hook messages.

        Omit the command if the title contains it, and a hook's message if the result contains it.
        """
        yield from self._command(look)
        for reason, words in self._hooks:
            if reason and answer.is_denied and reason in join_lines(answer.text):
                # The hook denied the call, and the result contains the reason.
                continue
            yield from wrap_spans([Span(words, look.theme["notice"])], look.width)

    def _command(self, look: Look) -> Iterator[Row]:
        """Yield the rows of the command if the title does not contain it."""
        arguments = self.block.get("input")
        command = arguments.get("command") if isinstance(arguments, dict) else None
        if isinstance(command, str) and escape_controls(command.strip(BLANKS)) not in self.title:
            # Shown as in the permission prompt: escape sequences are visible, not removed.
            for number, words in enumerate(command.strip("\n").split("\n")[:PROGRESS_ROWS]):
                sign = "$ " if number == 0 else "  "
                yield clip_spans([Span(f"{sign}{escape_controls(words.expandtabs(8))}", look.theme["quiet"])],
                              look.width)  # fmt: skip
