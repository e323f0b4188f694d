"""The output of a running session: finished output is returned once, live output on request.

The transcript determines the order of output. The caller passes events to `feed` and prints the
returned lines permanently, above everything else. `tail` returns what is shown below them, which is
redrawn whenever possible. A line that `feed` has returned is never returned again.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from clew.agent.events import (
    Compacting,
    EngineEvent,
    FromAgent,
    HookFinished,
    HookStarted,
    Noticed,
    NotSaved,
    Printed,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
)
from clew.core.json_object import Json
from clew.core.messages.text import format_count
from clew.core.page import ReportPage, lay_out
from clew.core.stream.events import (
    BlockDropped,
    BlockFinished,
    BlockStarted,
    InputDelta,
    MessageFinished,
    MessageStarted,
    TextDelta,
    ThinkingDelta,
    ToolUseReady,
)
from clew.fronts.render import stories as notices
from clew.fronts.render.folders import Folders
from clew.fronts.render.folding import Folds
from clew.fronts.render.grouping import CallGroup, can_fold
from clew.fronts.render.markdown import Markdown, make_markdown
from clew.fronts.render.recalled import (
    Titles,
    render_note,
    render_printed,
    render_prompt,
    render_recalled,
    render_thought,
    render_whole,
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
    wrap_spans,
)
from clew.fronts.render.stories import AgentLine, CallStory, title_of
from clew.fronts.render.theme import Abilities, Look, Theme
from clew.providers.answer_events import FellBack, HeldByRateLimit, Retrying, Waiting, Withdrawn

# Kinds of output. No blank line separates calls or notes from their own kind, or follows "room".
Voice: TypeAlias = Literal["words", "call", "note", "room"]

# The rows of thinking in progress.
THINKING_ROWS = 3
_CLOSE = frozenset({"note", "call"})


PAGE_INDENT = "  "
# A note with less room continues at the start of the line.
NOTE_CELLS = 20


def render_page(page: ReportPage, theme: Theme, width: int) -> Iterator[Line]:
    """Yield the lines of a page, painted in a theme."""
    room = width - len(PAGE_INDENT)
    for pieces in lay_out(page, room):
        spans = [Span(escape_controls(text), theme[part]) for text, part in pieces]
        yield from map(format_row, hang_note(spans, room))


def hang_note(spans: Row, width: int) -> Iterator[Row]:
    """Yield the rows of a line of a page.

    If the note at its end is too long, indent its next rows.
    """
    before, note = spans[:-1], spans[-1:]
    at = width_of(before)
    if not before or width - at < NOTE_CELLS:
        before, note, at = [], spans, 0
    for number, row in enumerate(wrap_spans(note, width - at)):
        yield [Span(PAGE_INDENT), *(before if number == 0 else [Span(" " * at)]), *row]


class Transcript:
    """Turns events into finished lines and live lines."""

    def __init__(
        self,
        width: int,
        theme: Theme,
        abilities: Abilities | None = None,
        *,
        see_with: str = "ctrl+o",
        announces: bool = False,
        says_waits: bool = False,
        shows_agents: bool = True,
        folders: Folders | None = None,
        is_verbose: bool = False,
    ) -> None:
        """Create a transcript.

        `see_with` is the key or command that expands collapsed output. With `announces`, no live
        rows are drawn; therefore the start of each call is printed, and each message names its
        speaker. With `says_waits`, the live rows say what the turn waits for; this is not needed
        if the terminal's working line says so. The live rows contain the running subagents only
        with `shows_agents`. With `is_verbose`, output is not collapsed.
        """
        self.width = width
        self.theme = theme
        self.abilities = abilities or Abilities()
        # The folders to which paths are relative.
        self.folders = folders or Folders()
        self.is_verbose = is_verbose
        self._folds = Folds(see_with)
        self._before: Voice = "room"
        # The open text block, and whether a row of it has been returned.
        self._words: Markdown | None = None
        self._has_words = False
        self._thought: list[str] = []
        # The unfinished calls by id, and their ids by position in the response.
        self._stories: dict[str, CallStory] = {}
        self._places: dict[int, str] = {}
        self._agents: dict[str, AgentLine] = {}
        # The finished reads and searches that the next one may join.
        self._group = CallGroup()
        # The calls whose effect the user saw in a permission prompt.
        self._seen: set[str] = set()
        self._waits = ""
        self._says_waits = says_waits
        # The last failed attempt of the current request; and, once a response to it has begun, the
        # failed attempts that are to be reported before that response.
        self._retried: Retrying | None = None
        self._overcome: Retrying | None = None
        self._announces = announces
        self._shows_agents = shows_agents
        # The call whose title was printed last.
        self._begun = ""

    @property
    def _look(self) -> Look:
        return Look(
            max(2, self.width),
            self.theme,
            self.abilities,
            says_who=self._announces,
            is_verbose=self.is_verbose,
            folders=self.folders,
        )

    def resize(self, width: int) -> None:
        """Use a new width for later output."""
        if width != self.width:
            self.width = width
            if self._words is not None:
                self._words.resize(self._look.inner.width)

    def feed(self, event: EngineEvent | TurnEnded) -> list[Line]:
        """Take an event; return the finished lines that it adds."""
        self._waits = ""
        match event:
            case TextDelta():
                return self._said(event.text)
            case ThinkingDelta():
                self._thought.append(event.thinking)
            case InputDelta():
                self._writes(event)
            case MessageStarted():
                self._places = {}
                self._overcome, self._retried = self._retried, None
            case BlockStarted():
                self._begins(event)
            case BlockFinished():
                return self._stands(event.block)
            case BlockDropped():
                return self._dropped(event)
            case ToolUseReady():
                self._story(event.block).ready(event.block)
            case ToolStarted():
                return self._starts(event)
            case ToolProgressed():
                self._goes_on(event)
            case ToolFinished():
                return self._ended(event)
            case HookFinished() if event.tool_use_id in self._stories:
                self._stories[event.tool_use_id].hook(event)
            case FromAgent(event=NotSaved() | Noticed()):
                return self._noted(notices.describe_event(event.event))
            case FromAgent():
                return self._agent(event)
            case Waiting():
                self._waits = notices.describe_waiting(event)
            case Retrying() if not self._announces:
                # The attempts before this one are included in its number.
                self._retried, self._overcome = event, None
                self._waits = " ".join(notices.describe_event(event))
            case HeldByRateLimit() | Compacting() if not self._announces:
                self._waits = " ".join(notices.describe_event(event))
            case HookStarted() if not self._announces:
                self._waits = event.status
            case FellBack():
                self._retried = self._overcome = None
                return self._noted(notices.describe_event(event))
            case Withdrawn():
                return self._withdrawn(event)
            case MessageFinished():
                return self._tried() + self._closed()
            case TurnEnded():
                return self._turn_ended(event)
            case Printed():
                # Belongs to the user's command right above it.
                self._before = "room"
                return self._out("words", list(render_printed(event.text, self._look, self._folds)))
            case _:
                return self._noted(notices.describe_event(event))
        return []

    def tail(self, width: int, rows: int) -> list[Line]:
        """Return at most `rows` live rows, with styles but without links and images."""
        if rows < 1:
            return []
        self.resize(width)
        look = self._look
        stories, agents = list(self._stories.values()), list(self._agents.values())
        if not self._shows_agents:
            stories, agents = [story for story in stories if not story.is_agent], []
        below = [row for story in stories for row in story.live(look)]
        for agent in agents:
            if agent.call_id not in self._stories and not agent.is_done:
                below.append(format_row(agent.live(look)))
        if self._waits and self._says_waits:
            below += render_note(self._waits, look, "quiet")
        room = max(rows - len(below), min(rows, 3))
        above: list[Row] = []
        if self._thought:
            above = self._thinking(look.inner, min(room, THINKING_ROWS))
        elif self._words is not None:
            above = self._words.tail(look.inner.width, room)
        inner, gutter = look.inner, look.gutter
        lines = [gutter + format_row(clip_spans(row, inner.width), links=False) for row in above]
        lines += below
        is_call = bool(self._group) or not above
        if self._group:
            lines = [*self._group.live(look), *([""] if above else []), *lines]
        is_close = self._before == "room" or (is_call and self._before == "call")
        is_apart = bool(lines) and not self._has_words and not is_close
        return (["", *lines] if is_apart else lines)[-rows:]

    def prompt(self, text: str) -> list[Line]:
        """Return the lines of a prompt."""
        group = self._fold()
        self._before = "words"
        return [*group, "", *render_prompt(text, self._look)]

    def saw(self, call_id: str) -> None:
        """Record that the user has seen a call's effect in the permission prompt."""
        self._seen.add(call_id)

    def interrupted(self) -> None:
        """Record that the caller has written other output below the last returned lines."""
        self._before, self._begun = "words", ""

    def note(self, text: str, *, part: str = "notice") -> list[Line]:
        """Return the lines of a notice from clew itself; `part` names the style."""
        return self._out("note", list(render_note(text, self._look, part)))

    def page(self, page: ReportPage) -> list[Line]:
        """Return the lines of a page."""
        return self._out("note", list(render_page(page, self.theme, self._look.width)))

    def patches(self, text: str) -> list[Line]:
        """Return the lines of a text that contains unified diffs."""
        look = self._look
        rows = self.paint_patches(text, look.inner.width, "quiet")
        return self._out("note", [look.gutter + row if row else "" for row in rows])

    def paint_patches(self, text: str, width: int, part: str = "") -> list[Line]:
        """Return the rows of a text that contains unified diffs, without a gutter.

        `part` names the style of the lines outside the diffs.
        """
        from clew.fronts.render.patches import render_patches

        look = replace(self._look, width=width)
        return [format_row(row) for row in render_patches(text, look, part)]

    def _noted(self, words: Iterable[str]) -> list[Line]:
        return [row for word in words for row in self.note(word)]

    def history(
        self, messages: Iterable[Json], rows: int = 400, titles: Titles = title_of
    ) -> list[Line]:
        """Return about `rows` rows of earlier messages.

        `titles` returns the title of a tool call.
        """
        message_list = messages if isinstance(messages, Sequence) else list(messages)
        lines = render_recalled(message_list, rows, self._look, self._folds, titles)
        self._before = "words" if lines else self._before
        return lines

    def whole(self, messages: Sequence[Json], titles: Titles = title_of) -> Iterator[Line]:
        """Yield the lines of messages with nothing collapsed, painted as they are read.

        Running calls are left out.
        """
        return render_whole(messages, self._look, titles, is_running=bool(self._stories))

    @property
    def folded(self) -> list[str]:
        """The names of the collapsed outputs, oldest first; `see` expands one of them."""
        return self._folds.names

    def see(self, name: str) -> list[Line]:
        """Return a collapsed output in full, given its name or number; empty if it is unknown."""
        return list(self.unfold(name))

    def unfold(self, name: str) -> Iterator[Line]:
        """Yield the lines of a collapsed output, painted as they are read."""
        render = self._folds.get(name)
        yield from () if render is None else map(format_row, render(self._look.width))

    # -- text

    def _said(self, text: str) -> list[Line]:
        out = self._think_over()
        if self._words is None:
            self._words = make_markdown(self._look.inner)
        return out + self._spoken(self._words.feed(text))

    def _spoken(self, rows: list[Row]) -> list[Line]:
        if not rows:
            return []
        gutter = self._look.gutter
        lines = [gutter + format_row(row) if row else "" for row in rows]
        if self._has_words:
            return lines
        self._has_words = True
        return self._out("words", lines)

    def _thinking(self, look: Look, rows: int) -> list[Row]:
        text = "".join(self._thought[-60:])[-4 * look.width :]
        spans = [Span(join_lines(text), self.theme["thinking"])]
        return list(wrap_spans(spans, look.width))[-rows:]

    def _think_over(self) -> list[Line]:
        """End the display of the model's thinking; return the line that replaces it."""
        text, self._thought = "".join(self._thought), []
        if self._group:
            # The thinking can be expanded, but does not separate the calls of a group.
            list(render_thought(text, self._look, self._folds))
            return []
        return self._out("note", list(render_thought(text, self._look, self._folds)))

    def _stands(self, block: Json) -> list[Line]:
        if block.get("type") == "thinking":
            return self._think_over()
        return self._closed() if block.get("type") == "text" else []

    def _closed(self) -> list[Line]:
        """End the open text and thinking; return their remaining lines."""
        out = self._think_over()
        words, self._words = self._words, None
        if words is not None:
            out += self._spoken(words.finish())
        self._has_words = False
        return out

    def _withdrawn(self, event: Withdrawn) -> list[Line]:
        had_words, self._words, self._has_words = self._has_words, None, False
        self._thought = []
        self._stories = {k: v for k, v in self._stories.items() if v.state != "writing"}
        return self._noted(notices.describe_event(event)) if had_words else []

    # -- calls

    def _story(self, block: Json) -> CallStory:
        return self._stories.setdefault(str(block.get("id", "")), CallStory(block))

    def _begins(self, event: BlockStarted) -> None:
        if event.block.get("type") == "tool_use":
            self._places[event.index] = str(event.block.get("id", ""))
            self._story(event.block)

    def _writes(self, event: InputDelta) -> None:
        story = self._stories.get(self._places.get(event.index, ""))
        if story is not None:
            story.writes(event.partial_json)

    def _dropped(self, event: BlockDropped) -> list[Line]:
        self._stories.pop(str(event.block.get("id", "")), None)
        return self._closed() if event.block.get("type") == "text" else []

    def _starts(self, event: ToolStarted) -> list[Line]:
        if event.title.startswith("! "):
            # The user's shell command; its output follows.
            if self._announces:
                return self._out("call", [escape_controls(event.title)])
            self._begun = ""
            return self.prompt(event.title)
        story = self._story(event.block)
        story.runs(event.block, event.title)
        if not self._announces:
            return []
        lines = self._out("call", story.head(self._look))
        self._begun = str(event.block.get("id", ""))
        return lines

    def _goes_on(self, event: ToolProgressed) -> None:
        story = self._stories.get(event.tool_use_id)
        text = getattr(event.data, "text", "")
        if story is not None and isinstance(text, str):
            story.progress = text

    def _ended(self, event: ToolFinished) -> list[Line]:
        story = self._story(event.block)
        if story.state == "writing":
            story.ready(event.block)
        for agent in story.agents:
            agent.is_done = True
        call_id = str(event.block.get("id", ""))
        del self._stories[call_id]
        story.conclude(event.entry, self._look, self._folds)
        is_seen = call_id in self._seen
        self._seen.discard(call_id)
        answer = story.answer(event.entry, event.display, self._look, is_seen=is_seen)
        is_whole = story.has_more or self._announces or self.is_verbose
        if can_fold(answer) and not is_whole:
            self._group.add(answer)
            return []
        head = [] if self._begun == call_id else story.head(self._look, is_error=event.is_error)
        below = story.told(answer, self._look, self._folds)
        return self._out("call", [*head, *below])

    def _agent(self, event: FromAgent) -> list[Line]:
        agent = self._agents.get(event.agent_id)
        if agent is None:
            agent = self._agents[event.agent_id] = AgentLine(event)
            if event.tool_use_id in self._stories:
                self._stories[event.tool_use_id].agents.append(agent)
        agent.heed(event)
        if not self._announces or not isinstance(event.event, ToolStarted):
            return []
        words = Span(f"  {join_lines(f'{event.description}: {event.event.title}')}")
        return self._out("call", [format_row(row) for row in wrap_spans([words], self._look.width)])

    def _turn_ended(self, event: TurnEnded) -> list[Line]:
        out = [*self._closed(), *self._fold()]
        self._seen.clear()
        stories, self._stories = self._stories, {}
        # A background agent gets a new live line with its next event.
        self._agents = {}
        for story in stories.values():
            out += self._out("call", story.stopped(self._look, self._folds))
        # The lines of the interrupted calls report the interruption already.
        is_said = event.reason in ("aborted_tools", "aborted_streaming") and bool(stories)
        words = "" if is_said else notices.describe_closing(event)
        part = {"stopped_by_hook": "notice"}.get(event.reason, "error")
        part = "quiet" if event.reason in notices.STOPPED else part
        if event.reason in notices.STOPPED:
            self._overcome = self._retried or self._overcome
            out += self._tried()
        self._retried = self._overcome = None
        return out + (self.note(words, part=part) if words else [])

    def _tried(self) -> list[Line]:
        """Return the line about a request's failed attempts, which stays visible."""
        retried, self._overcome = self._overcome, None
        if retried is None:
            return []
        attempts = format_count(retried.attempt, "failed attempt")
        return self.note(f"{notices.describe_failure(retried.failure)}: {attempts}")

    # -- spacing

    def _out(self, voice: Voice, lines: list[Line]) -> list[Line]:
        """Return finished lines, with a blank line above them where their kind needs one."""
        if not lines:
            return []
        group = self._fold() + self._tried()
        self._begun = ""
        is_close = self._before == "room" or (self._before == voice and voice in _CLOSE)
        self._before = voice
        return [*group, *(lines if is_close else ["", *lines])]

    def _fold(self) -> list[Line]:
        """End the group of reads and searches, if there is one; return its lines."""
        if not self._group:
            return []
        lines = self._group.take(self._look, self._folds)
        is_close = self._before in ("room", "call")
        self._before = "call"
        return lines if is_close else ["", *lines]
