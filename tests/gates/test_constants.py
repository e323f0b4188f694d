"""The constants and environment names of the specification in one table; a row arrives with its code.

Each row: what clew says, what the specification gives (or its correction asks), and the record, as
`(requirement("R232"), lambda: BUFFER_BYTES, 65536)`.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from clew.agent.tools.base import BASH_TIMEOUT_MS
from clew.agent.transitions import read_wished_tokens
from clew.core.catalog.lookup import CATALOG
from clew.core.catalog.models import make_rates
from clew.core.normalize.tokens import RESULT_OVERHEAD, USE_OVERHEAD
from clew.core.stream.sse import READ_SIZE_BYTES
from clew.providers.failure_kinds import MIN_OUTPUT_TOKENS, SAFETY_TOKENS
from clew.providers.retry import RetryPolicy
from clew.providers.watchdog import SilenceLimits
from clew.record.transcript import files, light
from clew.system.config.environment import VARIABLES
from tests.requirements import BY_ID, requirement

NAMES_OF_VARIABLES = {name for known in VARIABLES for name in known.names}
ENVIRONMENT = {
    "ANTHROPIC_API_KEY",
    "CLAUDE_MODEL",
    "BASH_MAX_OUTPUT_LENGTH",
    "BASH_DEFAULT_TIMEOUT_MS",
    "CLAUDE_TELEMETRY_DISABLED",
}


def _rates(model: str) -> tuple[Decimal, Decimal]:
    base = CATALOG.entry(model).prices[-1].rates
    return base.input, base.output


CONSTANTS: list[tuple[Any, Callable[[], Any], Any]] = [
    (requirement("R232"), lambda: READ_SIZE_BYTES, 65_536),
    # C5 in place of the 30 seconds: a dead line, and a line that is alive and says nothing.
    (requirement("R233"), lambda: (SilenceLimits().bytes_s, SilenceLimits().events_s), (90, 300)),
    # C6 in place of +-10 %: full jitter, tested where the pause is chosen.
    (
        requirement("R234"),
        lambda: (RetryPolicy().base_s, RetryPolicy().cap_s, RetryPolicy().factor),
        (1, 30, 2),
    ),
    (requirement("R235"), lambda: (SAFETY_TOKENS, MIN_OUTPUT_TOKENS), (1000, 3000)),
    (requirement("R240"), lambda: light.READ_SIZE_BYTES, 65_536),
    (
        requirement("R236"),
        lambda: (make_rates("1", "1").cache_read, make_rates("1", "1").cache_write_5m),
        (Decimal("0.1"), Decimal("1.25")),
    ),
    (requirement("R242"), lambda: (files.FOLDER_MODE, files.FILE_MODE), (0o700, 0o600)),
    (requirement("R244"), lambda: NAMES_OF_VARIABLES & ENVIRONMENT, ENVIRONMENT),
    (requirement("R243"), lambda: BASH_TIMEOUT_MS, 120_000),
    (requirement("R245"), lambda: (USE_OVERHEAD, RESULT_OVERHEAD), (20, 10)),
    (requirement("R246"), lambda: read_wished_tokens("go on +500k"), 500_000),
    (requirement("R248"), lambda: CATALOG.entry("claude-sonnet-4-20250514").known, True),
    (requirement("R249"), lambda: _rates("claude-sonnet-4-20250514"), (Decimal(3), Decimal(15))),
]


def test_each_constant_has_its_value() -> None:
    assert [said() for _, said, _ in CONSTANTS] == [specified for _, _, specified in CONSTANTS]


def test_every_constant_that_is_done_has_its_row_here() -> None:
    done = {f"R{n:03d}" for n in range(232, 250) if BY_ID[f"R{n:03d}"].state == "done"}
    rows = {mark.args[0] for mark, _, _ in CONSTANTS}
    assert done <= rows
