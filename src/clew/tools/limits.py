"""The limits of tools, read once from the environment that was frozen at the start."""

from collections.abc import Callable

from msgspec import Struct

BASH_TIMEOUT_MS = 120_000
BASH_MAX_TIMEOUT_MS = 600_000
BASH_MAX_OUTPUT_CHARS = 30_000
# Beyond this a result would crowd out the conversation, whatever a variable asks for.
BASH_OUTPUT_CEILING_CHARS = 150_000


class Limits(Struct, frozen=True, kw_only=True):
    bash_timeout_ms: int = BASH_TIMEOUT_MS
    bash_max_timeout_ms: int = BASH_MAX_TIMEOUT_MS
    bash_max_output_chars: int = BASH_MAX_OUTPUT_CHARS


def limits_from(number: Callable[[str], int | None]) -> Limits:
    """`number` is the frozen environment's: a field's value, in whichever spelling it was given."""
    timeout_ms = number("bash_timeout_ms") or BASH_TIMEOUT_MS
    most_ms = number("bash_max_timeout_ms") or BASH_MAX_TIMEOUT_MS
    output_chars = number("bash_max_output") or BASH_MAX_OUTPUT_CHARS
    return Limits(
        bash_timeout_ms=timeout_ms,
        # Whoever raises the usual time means that commands may take it.
        bash_max_timeout_ms=max(timeout_ms, most_ms),
        bash_max_output_chars=min(output_chars, BASH_OUTPUT_CEILING_CHARS),
    )
