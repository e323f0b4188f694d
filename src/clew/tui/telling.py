"""What a turn does, as lines: text as it comes, calls and their results in a line each."""

from typing import Any, TextIO, TypeAlias

from clew.engine.events import (
    Compacted,
    Compacting,
    Doubted,
    EngineEvent,
    FromAgent,
    NotCompacted,
    Noticed,
    NotSaved,
    Printed,
    Repaired,
    Signalled,
    ToolFinished,
    ToolStarted,
)
from clew.hooks.progress import HookStarted
from clew.messages.messages import Assistant, User
from clew.normalize.repairs import in_words
from clew.providers.answer_events import FellBack, Held, Retrying, Waiting, Withdrawn
from clew.stream.events import BlockFinished, TextDelta

Json: TypeAlias = dict[str, Any]
SHOWN_CHARACTERS = 200
# Of one message of a conversation that goes on: enough to know where one is.
RECALLED_CHARACTERS = 8_000


class Telling:
    """Writes to one stream; knows only whether the last thing written ended its line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_mid_line = False

    def line(self, text: str) -> None:
        self._end_line()
        if text:
            self._write(f"{text}\n")

    def history(self, messages: list[Json]) -> None:
        """What was said before, so that whoever resumes sees where they are."""
        for message in messages:
            if message.get("type") == "user" and (said := User(message)).face == "typed":
                self.line(recalled(f"> {said.text}"))
            elif message.get("type") == "assistant":
                self.line(recalled(Assistant(message).text))

    async def emit(self, event: EngineEvent) -> None:
        match event:
            case TextDelta():
                self._write(event.text)
            case BlockFinished():
                self._end_line()
            case ToolStarted():
                self.line(f"* {event.title}")
            case ToolFinished():
                self.line(f"  {outcome(event)}")
            case Waiting():
                self.line(
                    f"(no answer for {event.silent_s:.0f} s; given up at {event.limit_s:.0f} s)"
                )
            case Retrying():
                self.line(f"({event.failure.message}; trying again in {event.delay_s:.0f} s)")
            case Held():
                self.line(f"(waiting {event.delay_s:.0f} s, as the service asked)")
            case FellBack():
                self.line(f"({event.failure.message}; asking {event.model} instead)")
            case Withdrawn():
                self.line("(the answer above was broken off; it begins anew)")
            case Printed():
                self.line(event.text)
            case HookStarted() if event.status:
                self.line(f"({event.status})")
            case Signalled() if self._out.isatty():
                # Written as it is: of all that a hook may say, only such signals come this way.
                self._out.write(event.sequence)
                self._out.flush()
            case FromAgent(event=ToolStarted() as began):
                self.line(f"  {event.description}: {began.title}")
            case FromAgent(event=NotSaved() | Noticed()):
                await self.emit(event.event)
            case NotSaved() | Noticed():
                for message in event.messages:
                    self.line(f"! {message}")
            case Compacting():
                self.line("(the conversation is being summarised)")
            case Compacted():
                self.line(f"-- summarised: {event.message}")
            case NotCompacted():
                self.line(f"! not summarised: {event.message}")
            case Repaired():
                mended = in_words(event.repairs)
                self.line(f"! {mended}" if mended else "")
            case Doubted():
                self.line(f"! {doubted(event)}")

    def _write(self, text: str) -> None:
        self._out.write(visible(text))
        self._out.flush()
        self._is_mid_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._is_mid_line:
            self._write("\n")


def outcome(event: ToolFinished) -> str:
    """What a call came to, in one line."""
    mark = "failed: " if event.is_error else ""
    return f"{mark}{event.display[:SHOWN_CHARACTERS]}".rstrip(": ") or "done"


def recalled(text: str) -> str:
    """What is shown of an earlier message."""
    rest = len(text) - RECALLED_CHARACTERS
    return text if rest <= 0 else f"{text[:RECALLED_CHARACTERS]}... ({rest:,} more characters)"


def doubted(event: Doubted) -> str:
    """A request that the service would refuse, and whether it was sent."""
    faults = "; ".join(f"{v.where}: {v.what}" for v in event.violations[:3])
    what = "not sent" if event.is_held else "sent all the same"
    return f"{what}; by the rules the service would refuse it: {faults}"


def visible(text: str) -> str:
    """Text without the control characters by which a model or a file could rule the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
