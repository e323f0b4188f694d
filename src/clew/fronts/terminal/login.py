"""`/login`: asks for an API key without showing it, checks it, and reopens the session with it."""

from clew.commands.login import (
    INVALID,
    KEYS_URL,
    RejectedKeyError,
    check_saved_key,
    is_key,
    save_key,
)
from clew.core.input import Clear, Outcome, Resume, Show
from clew.fronts.dialog import Choice
from clew.fronts.render.rows import Line, Span, clip_spans, format_row, wrap_spans
from clew.fronts.render.theme import Theme
from clew.fronts.terminal.app import TerminalFront
from clew.fronts.terminal.choosing import Chooser
from clew.session.session import Session
from clew.system.config.environment import freeze

BULLET = "•"
LEGEND = "Enter save · Esc cancel"
ABOUT = f"Paste a key from {KEYS_URL}. It is checked with one free request."


class SecretField(Chooser):
    """A field for a secret, of which only the length is drawn."""

    def __init__(self, title: str) -> None:
        super().__init__(title, [Choice(label="API key", asks_words=True)])

    @property
    def is_typing(self) -> bool:
        return True

    def lines(
        self, width: int, rows: int, theme: Theme
    ) -> tuple[list[Line], tuple[int, int] | None]:
        hidden = BULLET * min(len(self.field.text), width - 4)
        text = [Span("  "), Span(ABOUT, theme["quiet"])]
        drawn = [
            [Span(self.title, theme["heading"])],
            *wrap_spans(text, width),
            [Span("> ", theme["marker"]), Span(hidden)],
            [Span(f"  {LEGEND}", theme["quiet"])],
        ]
        lines = [format_row(clip_spans(row, width)) for row in drawn][-rows:]
        return lines, (len(lines) - 2, 2 + len(hidden))

    def _enter(self) -> None:
        self._take(0)


async def log_in(front: TerminalFront, session: Session) -> Outcome:
    """Ask for a key and save it if the API accepts it, or cannot be reached."""
    places = session.rules.standing.places
    answer = await front.stage.answered(front.stage.show(SecretField("Log in with an API key")))
    if answer is None:
        return Show(text="Canceled; nothing was saved")
    if not is_key(answer.words):
        return Show(text=f"/login: {INVALID}", is_error=True)
    environment = freeze(session.rules.standing.environ)
    try:
        checked = await check_saved_key(answer.words, environment)
    except RejectedKeyError as error:
        return Show(text=f"/login: {error}", is_error=True)
    done = f"{checked[0].upper()}{checked[1:]}; {save_key(answer.words, places)}"
    if environment.text("api_key"):
        name = environment.source("api_key")
        return Show(text=f"{done}. {name} is set and takes precedence over it.")
    assert front.stage.transcript is not None
    front.screen.say(front.stage.transcript.note(done, part="quiet"))
    # A session has the key that it was opened with.
    has_begun = len(session.story.history) and session.story.recorder.is_kept
    return Resume(session=session.session_id) if has_begun else Clear()
