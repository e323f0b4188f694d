"""A question with choices, independent of how it is shown."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

# A function that returns the lines of text to show above the choices, for a given width.
Body: TypeAlias = Callable[[int], Sequence[str]]


class Choice(Struct, frozen=True, kw_only=True):
    """One choice of a dialog.

    `key` selects the choice directly, as does its number. With `asks_words`, the user also types
    text. With `words_key`, text is optional: that key opens a text field in the choice's row,
    labeled with `words_label`. `compact` is a shorter label for a small screen. `refuses` marks a
    choice that rejects the request; such a choice is never hidden.
    """

    label: str
    compact: str = ""
    hint: str = ""
    key: str = ""
    asks_words: bool = False
    words_key: str = ""
    words_label: str = ""
    refuses: bool = False


class DialogAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a dialog: the indices of the selected choices, in order, and the typed text."""

    chosen: tuple[int, ...]
    words: str = ""


class Dialog(Struct, frozen=True, kw_only=True):
    """A question with its choices.

    `text`, or `body` if the text is drawn as lines, is shown above the choices. `header` is a short
    name that distinguishes the dialog from others shown together. `at` is the index of the
    preselected choice. `escape` says what the Escape key does.
    """

    title: str
    choices: list[Choice]
    text: str = ""
    body: Body | None = None
    header: str = ""
    several: bool = False
    at: int = 0
    escape: str = "cancel"
