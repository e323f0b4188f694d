"""An agent at work, as a line that changes: who it is, how much it did, what it does now. Pure."""

from clew.engine.events import FromAgent, ToolFinished, ToolStarted
from clew.messages.counts import count_of
from clew.stream.events import MessageFinished, TextDelta, ThinkingDelta
from clew.tui.render.look import Look
from clew.tui.render.rows import Row, Span, clipped
from clew.tui.render.safe import one_line

# Of what it says, as much as a line could show.
SAID_CHARACTERS = 200


class Agent:
    """`call_id` is the call that began it, in whichever conversation."""

    def __init__(self, begun: FromAgent) -> None:
        self.call_id = begun.tool_use_id
        self.name = one_line(": ".join(filter(None, (begun.kind, begun.description))))
        self.calls = 0
        self.is_done = False
        self._doing = ""
        self._said = ""

    @property
    def counted(self) -> str:
        return count_of(self.calls, "call")

    def heed(self, told: FromAgent) -> None:
        """Something happened in its conversation."""
        event, self.is_done = told.event, False
        match event:
            case ToolStarted():
                self.calls += 1
                self._doing, self._said = event.title, ""
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
        said = self._said.strip().rpartition("\n")[2]
        parts = (self.counted if self.calls else "", one_line(self._doing or said))
        beside = "".join(f" · {part}" for part in parts if part)
        mark = Span("↳ ", look.theme["running"])
        return clipped([mark, Span(self.name), Span(beside, look.theme["quiet"])], look.width)
