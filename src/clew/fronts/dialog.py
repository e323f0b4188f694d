"""A question with choices, independent of how it is shown."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

# A function that returns the lines of text to show above the choices, for a given width.
Body: TypeAlias = Callable[[int], Sequence[str]]


class Choice(Struct, frozen=True, kw_only=True):
    """One choice of a dialog.

    `key` is the key that selects the choice directly. If `asks_words` is set, the user types text
    along with it.
    """

    label: str
    hint: str = ""
    key: str = ""
    asks_words: bool = False


class DialogAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a dialog: the indices of the selected choices, in order, and the typed text."""

    chosen: tuple[int, ...]
    words: str = ""


class Dialog(Struct, frozen=True, kw_only=True):
    """A question with its choices.

    `text`, or `body` if the text is drawn as lines, is shown above the choices. `at` is the index
    of the preselected choice.
    """

    title: str
    choices: list[Choice]
    text: str = ""
    body: Body | None = None
    several: bool = False
    at: int = 0
