"""How large the next prompt is.

The anchor is the last answer's usage: what was sent then is known to the token. Only what came after is
estimated, and corrected by how far the estimates of this session were off.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from clew.normalize.tokens import message_tokens
from clew.session.spending import tokens_of


class Estimator:
    """Estimates that learn: `factor` is how far this session's estimates were off."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def learn(self, estimated: int, counted: int) -> None:
        """Takes in what the service counted for something that was estimated, uncorrected."""
        if estimated < 200 or counted <= 0:
            return  # too little to learn from
        seen = min(3.0, max(0.4, counted / estimated))
        self.factor += (seen - self.factor) * 0.4

    def tail(self, messages: Iterable[dict[str, Any]]) -> int:
        return round(message_tokens(messages) * self.factor)

    def next_prompt(self, usage: Any, tail: Sequence[dict[str, Any]]) -> int:
        """How large the next prompt is: what was sent and answered last, and what came since."""
        known = tokens_of(usage)
        return known.total + self.tail(tail)
