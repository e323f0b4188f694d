"""`/login` on the screen: a field for an API key that shows only its length."""

from clew.commands.login import describe_source
from clew.core.catalog.services import ServiceRow
from clew.core.input import Outcome
from clew.fronts import login
from clew.fronts.dialog import Choice
from clew.fronts.render.rows import Line, Span, clip_spans, format_row, hang_lines
from clew.fronts.render.theme import Theme
from clew.fronts.terminal.app import TerminalFront
from clew.fronts.terminal.choosing import Chooser
from clew.session.session import Session

BULLET = "•"
LEGEND = "Enter to save · Esc to cancel"


class SecretField(Chooser):
    """A field for a secret, of which only the length is drawn."""

    def __init__(self, title: str, about: str) -> None:
        super().__init__(title, [Choice(label="API key", asks_words=True)])
        self._about = about

    @property
    def is_typing(self) -> bool:
        return True

    def lines(
        self, width: int, rows: int, theme: Theme
    ) -> tuple[list[Line], tuple[int, int] | None]:
        hidden = BULLET * min(len(self.field.text), width - 4)
        drawn = [
            [Span(self.title, theme["heading"])],
            *hang_lines(f"  {self._about}", theme["quiet"], width),
            [Span("> ", theme["marker"]), Span(hidden)],
            [Span(f"  {LEGEND}", theme["quiet"])],
        ]
        lines = [format_row(clip_spans(row, width)) for row in drawn][-rows:]
        return lines, (len(lines) - 2, 2 + len(hidden))

    def _enter(self) -> None:
        self._take(0)


async def log_in(front: TerminalFront, session: Session, service: str) -> Outcome:
    """Ask for a service's API key, and log in with it."""
    transcript = front.stage.transcript
    assert transcript is not None

    async def ask(row: ServiceRow) -> str | None:
        field = SecretField("Log in with an API key", describe_source(row))
        answer = await front.stage.answered(front.stage.show(field))
        return None if answer is None else answer.words

    def tell(done: str) -> None:
        front.screen.say(transcript.note(done, part="quiet"))

    return await login.log_in(session, service, ask, tell)
