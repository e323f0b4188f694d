"""The same call again and again: a person is asked before it goes on, and nothing goes on for ever.

Five in a row: people and models repeat a call two or three times in good faith (a test that flakes, a
service that starts); a fifth equal call has had four equal chances to tell something new. Fifteen
without anyone's yes: where nobody can be asked, the model has then read ten refusals of that call.
"""

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

ASK_AT = 5
END_AT = 15


class Repetition:
    """How often in a row this turn made its last call; name and input are what makes calls equal."""

    def __init__(self) -> None:
        self._last: tuple[str, Any] | None = None
        self._count = 0

    def note(self, block: Json) -> None:
        this = (block["name"], block["input"])
        self._count = self._count + 1 if this == self._last else 1
        self._last = this

    def forgive(self) -> None:
        """A person wants it so: the count begins anew."""
        self._count = 0

    @property
    def question(self) -> str:
        """Why a person must be asked; empty if they need not be."""
        if self._count < ASK_AT:
            return ""
        return f"the same call was made {self._count} times in a row"

    @property
    def is_endless(self) -> bool:
        return self._count >= END_AT
