"""The limits of tools, read once from the environment and the settings of the start."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

BASH_TIMEOUT_MS = 120_000
BASH_MAX_TIMEOUT_MS = 600_000
BASH_MAX_OUTPUT_CHARS = 30_000
# Beyond this a result would crowd out the conversation, whatever a variable asks for.
BASH_OUTPUT_CEILING_CHARS = 150_000


# What takes longer hangs, as far as anybody can tell.
CALL_TIMEOUT_S = 300.0
EVERY = "*"


class Limits(Struct, frozen=True, kw_only=True):
    bash_timeout_ms: int = BASH_TIMEOUT_MS
    bash_max_timeout_ms: int = BASH_MAX_TIMEOUT_MS
    bash_max_output_chars: int = BASH_MAX_OUTPUT_CHARS
    # Seconds of one call, by patterns of the names of tools.
    call_timeouts_s: Mapping[str, float] = {}

    def call_timeout_s(self, name: str, *, owns_its_time: bool) -> float | None:
        """How long one call may take; None for a tool that ends by itself. Of several patterns that
        fit, the longest counts, and `*` speaks only of tools that have no limit of their own."""
        timeouts = {EVERY: CALL_TIMEOUT_S, **self.call_timeouts_s}
        fitting = [pattern for pattern in timeouts if fnmatchcase(name, pattern)]
        nearest = max(fitting, key=len)
        return None if owns_its_time and nearest == EVERY else timeouts[nearest]


def limits_from(
    number: Callable[[str], int | None], call_timeouts_s: Mapping[str, float] | None = None
) -> Limits:
    """`number` is the frozen environment's: a field's value, in whichever spelling it was given."""
    timeout_ms = number("bash_timeout_ms") or BASH_TIMEOUT_MS
    most_ms = number("bash_max_timeout_ms") or BASH_MAX_TIMEOUT_MS
    output_chars = number("bash_max_output") or BASH_MAX_OUTPUT_CHARS
    return Limits(
        bash_timeout_ms=timeout_ms,
        # Whoever raises the usual time means that commands may take it.
        bash_max_timeout_ms=max(timeout_ms, most_ms),
        bash_max_output_chars=min(output_chars, BASH_OUTPUT_CEILING_CHARS),
        call_timeouts_s=call_timeouts_s or {},
    )
