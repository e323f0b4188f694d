"""What `clew demo` writes: the answer as it comes, and in between, marked, what happened on the way.

Must never write a control character that came from a model: a scenario may be a recording.
"""

import json

from clew.messages.counts import count_of
from clew.providers.answer_events import (
    Answered,
    CompactionDue,
    DriverEvent,
    Ended,
    FellBack,
    GaveUp,
    Incomplete,
    Retrying,
    Shrunk,
    Waiting,
    Withdrawn,
)
from clew.stream.events import (
    BlockFinished,
    MessageFinished,
    TextDelta,
    ThinkingDelta,
    ToolUseReady,
    ToolUseUnusable,
)
from clew.tui.paper import Paper
from clew.tui.render.flow import Flow, at_words

DIM, BOLD, RED, PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[0m"
OPENING = (
    "clew demo: a scripted model, over real HTTP on this machine; no key, no network beyond it"
)


class Screen:
    """Lines of text, and colours where they are wanted; knows whether a line is open."""

    def __init__(self, paper: Paper, *, ansi: bool) -> None:
        self._paper = paper
        self._write = paper.write
        self._ansi = ansi
        self._open = ""
        self._words = Flow(0)
        self._answers = 0
        self._retries = 0

    def opening(self) -> None:
        self._line(OPENING, DIM)

    def prompt(self, text: str) -> None:
        self._write("\n")
        self._line(f"> {text}", BOLD)

    async def event(self, event: DriverEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._stream(text, "")
            case ThinkingDelta(thinking=text):
                self._stream(text if self._open else f"(thinking) {text}", DIM)
            case BlockFinished() | MessageFinished():
                self._close()
            case ToolUseReady(block=block):
                shown = json.dumps(block["input"], ensure_ascii=False)
                self._note(f"calls {block['name']} {shown}")
            case ToolUseUnusable(block=block, message=message):
                self._note(f"calls {block['name']}, and its input cannot be used: {message}")
            case Withdrawn():
                self._note("withdrawn: the answer begins anew")
            case Retrying(failure=failure, attempt=attempt, delay_s=delay_s):
                self._retries += 1
                self._note(f"{failure.message}", RED)
                self._note(f"attempt {attempt + 1} in {delay_s:.1f} s")
            case Waiting(silent_s=silent_s):
                self._note(f"nothing came for {silent_s:.0f} s")
            case FellBack(model=model):
                self._note(f"asking {model} instead")
            case Shrunk(max_tokens=most):
                self._note(f"asking for at most {most} tokens")
            case _:
                pass

    def ended(self, ended: Ended) -> None:
        self._close()
        match ended:
            case Answered():
                self._answers += 1
            case Incomplete(failure=failure):
                self._note(f"{failure.message}; what was complete is kept", RED)
            case GaveUp(failure=failure, why=why):
                self._note(f"{failure.message}; {why}", RED)
            case CompactionDue():
                self._note("the conversation does not fit the model", RED)

    def not_run(self, text: str) -> None:
        self._note(text)

    def closing(self, requests: int) -> None:
        self._write("\n")
        counted = (
            count_of(requests, "request"),
            count_of(self._answers, "answer"),
            count_of(self._retries, "retry", "retries"),
        )
        self._line(", ".join(counted), DIM)

    def _stream(self, text: str, style: str) -> None:
        """More of what the model says; `style` holds until the line is closed."""
        if not self._open:
            self._write(self._styled(style))
            self._open = style or PLAIN
            self._words = Flow(self._paper.columns)
        self._write(self._words.feed(printable(text)))

    def _close(self) -> None:
        if self._open:
            self._write(
                self._words.close() + self._styled(PLAIN if self._open != PLAIN else "") + "\n"
            )
            self._open = ""

    def _note(self, text: str, style: str = DIM) -> None:
        self._close()
        self._line(f"  [{text}]", style)

    def _line(self, text: str, style: str) -> None:
        words = at_words(printable(text), self._paper.columns)
        self._write(f"{self._styled(style)}{words}{self._styled(PLAIN)}\n")

    def _styled(self, code: str) -> str:
        return code if self._ansi else ""


def printable(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
