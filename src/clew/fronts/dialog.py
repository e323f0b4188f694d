"""A question with answers to choose from, however it is shown."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

# The lines of a text that is to be read first, for a width.
Body: TypeAlias = Callable[[int], Sequence[str]]


class Choice(Struct, frozen=True, kw_only=True):
    """One answer. `key` takes it at once; with `asks_words` a user says more behind it."""

    label: str
    hint: str = ""
    key: str = ""
    asks_words: bool = False


class DialogAnswer(Struct, frozen=True, kw_only=True):
    """The numbers of what was chosen, in their order, and the words that were typed."""

    chosen: tuple[int, ...]
    words: str = ""


class Dialog(Struct, frozen=True, kw_only=True):
    """`text` is to be read first, or `body` where lines are drawn; `at` is the answer that is current."""

    title: str
    choices: list[Choice]
    text: str = ""
    body: Body | None = None
    several: bool = False
    at: int = 0
