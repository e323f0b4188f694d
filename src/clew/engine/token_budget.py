"""`+500k` in a prompt: the model is to use so many tokens on it, and is sent on when it stops early.

Owns how the wish is read and when it is fulfilled. It never keeps a turn alive that gets nowhere: a
model that twice in a row adds next to nothing has said what it had to say.
"""

import re

from clew.engine.transitions import Continue, Terminal, Transition

# At the beginning or the end of a prompt, where nobody writes a sum.
WISH = re.compile(
    r"\A\s*\+(\d{1,4}(?:\.\d{1,3})?)([km])(?=\s|\Z)|(?<=\s)\+(\d{1,4}(?:\.\d{1,3})?)([km])\s*\Z",
    re.I,
)
UNITS = {"k": 1_000, "m": 1_000_000}

# So near to the wish, another round would be over it.
ENOUGH = 0.9
FEW_TOKENS = 500
FEW_TIMES = 2
GO_ON = (
    "You have used {used:,} of the {wished:,} tokens that were set aside for this ({part} %). Keep "
    "working: take what is not done, not checked or not as good as it could be, and go on with it. Do "
    "not sum up. If truly nothing is left, say so in one sentence."
)


def wished_tokens(prompt: str) -> int | None:
    """The tokens that a prompt sets aside for itself."""
    found = WISH.search(prompt)
    if found is None:
        return None
    number, unit = (found[1], found[2]) if found[1] else (found[3], found[4])
    return round(float(number) * UNITS[unit.lower()]) or None


class TokenBudget:
    """What one turn is to use, and what it used when it was last sent on."""

    def __init__(self, wished: int) -> None:
        self._wished = wished
        self._used = 0
        self._short = 0

    def onward(self, step: Transition, used: int) -> Transition:
        """The step, or, where the model would end with much left, one more request."""
        if not (isinstance(step, Terminal) and step.reason == "completed"):
            return step
        self._short = self._short + 1 if used - self._used < FEW_TOKENS else 0
        self._used = used
        if used >= self._wished * ENOUGH or self._short >= FEW_TIMES:
            return step
        part = used * 100 // self._wished
        return Continue(
            cause="budget", words=GO_ON.format(used=used, wished=self._wished, part=part)
        )
