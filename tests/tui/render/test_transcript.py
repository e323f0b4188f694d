"""What goes out stays and goes out once; what still changes is bounded."""

from clew.stream.events import BlockFinished, TextDelta
from clew.tui.render.theme import PLAIN
from clew.tui.render.transcript import Transcript


def test_words_show_at_once_and_go_out_when_they_stand() -> None:
    shown = Transcript(80, PLAIN)
    assert shown.feed(TextDelta(index=0, text="Half a line")) == []
    assert shown.tail(80, 5) == ["Half a line"]
    out = shown.feed(BlockFinished(index=0, block={"type": "text", "text": "Half a line"}))
    assert out == ["Half a line"]
    assert shown.tail(80, 5) == []
