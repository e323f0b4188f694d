"""What the line above the prompt says while a turn runs: for how long, how much came, what it waits for.

Owns nothing but what it was told and when; the clock comes in.
"""

from typing import Any

from clew.engine.events import Compacting, EngineEvent, ToolFinished, ToolStarted
from clew.providers.answer_events import Asking, FellBack, Held, Retrying, Waiting
from clew.stream.events import InputDelta, MessageFinished, TextDelta, ThinkingDelta, UsageChanged
from clew.tui.render.rows import Line, Row, Span, clipped, line
from clew.tui.render.theme import Theme

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_S = 0.2
# A token of an answer that is still coming, in characters.
CHARACTERS = 4


class Working:
    """One turn, from its beginning on."""

    def __init__(self, now_s: float) -> None:
        self._began_s = now_s
        self._said_tokens = 0
        self._characters = 0
        self._doing = ""
        # Until when something is waited for, and for what.
        self._until_s = 0.0
        self._why = ""
        self._silent_since_s = 0.0
        self._given_up_s = 0.0
        self.is_stopping = False
        self._running: set[str] = set()

    def heed(self, event: EngineEvent, now_s: float) -> None:
        """What an event changes about the line."""
        match event:
            case TextDelta():
                self._came("answering", len(event.text))
            case ThinkingDelta():
                self._came("thinking", len(event.thinking))
            case InputDelta():
                self._came("writing a call", len(event.partial_json))
            case Asking():
                self._came("asking the model", 0)
            case ToolStarted():
                self._running.add(event.block["id"])
            case ToolFinished():
                self._running.discard(event.block["id"])
            case UsageChanged():
                self._counted(event.usage)
            case Compacting():
                self._came("shortening the conversation", 0)
            case MessageFinished():
                self._doing = ""
            case Waiting():
                self._silent_since_s = now_s - event.silent_s
                self._given_up_s = self._silent_since_s + event.limit_s
            case Retrying():
                self._wait(event.failure.message, event.delay_s, now_s)
            case Held():
                self._wait("the service asked for a pause", event.delay_s, now_s)
            case FellBack():
                self._why = f"{event.failure.message}; asking {event.model} instead"

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
        self._why, self._until_s = why, now_s + delay_s

    def line(self, now_s: float, width: int, theme: Theme) -> Line:
        mark = FRAMES[int((now_s - self._began_s) / FRAMES_S) % len(FRAMES)]
        row: Row = [Span(f"{mark} ", theme["running"]), Span(self._what(now_s))]
        rest = [lasting(now_s - self._began_s)]
        if tokens := self._said_tokens + self._characters // CHARACTERS:
            rest.append(f"{counted(tokens)} tokens")
        rest.append("stopping" if self.is_stopping else "Escape stops")
        return line(clipped([*row, Span(f"  ({', '.join(rest)})", theme["quiet"])], width))

    def _what(self, now_s: float) -> str:
        if self._until_s > now_s:
            return f"{self._why}; trying again in {self._until_s - now_s:.0f} s"
        if self._silent_since_s:
            silent, limit = now_s - self._silent_since_s, self._given_up_s - now_s
            return f"no bytes for {silent:.0f} s; given up in {max(0, limit):.0f} s"
        if self._why:
            return self._why
        if self._running:
            return f"running {len(self._running)} calls" if len(self._running) > 1 else "running"
        return self._doing or "working"


def lasting(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


def counted(number: int) -> str:
    if number < 1_000:
        return str(number)
    return f"{number / 1_000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"
