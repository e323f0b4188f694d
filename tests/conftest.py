"""Hypothesis profiles: quick by default, deep for `make laws`; without deadlines on wall time."""

import asyncio
import inspect
import os
import signal
import time
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "quick", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "deep", max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("CLEW_HYPOTHESIS", "quick"))

# A shell has what it starts in the background ignore SIGINT, and programs inherit that over exec: the
# programs under test would then never hear the one that a test sends them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


STARTED_S = time.monotonic()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the result of the run as the last line, for `make`, which sets CLEW_TESTS_TARGET.

    The line contains the sums that passing tests recorded with `record_property`.
    """
    reporter: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return
    counted: Counter[str] = Counter()
    for report in reporter.stats.get("passed", []):
        counted.update({name: n for name, n in report.user_properties if type(n) is int})
    figures = [f"{number:,} {name}" for name, number in counted.items()]
    if target := os.environ.get("CLEW_TESTS_TARGET"):
        minutes, seconds = divmod(round(time.monotonic() - STARTED_S), 60)
        ended = [
            (kind, len(reporter.stats.get(kind, []))) for kind in ("failed", "error", "passed")
        ]
        parts = [f"{n:,} {kind}" for kind, n in ended if n or kind == "passed"]
        figures = [
            ", ".join([f"{target}: {parts[0]}", *parts[1:], *figures, f"{minutes}:{seconds:02}"])
        ]
    for line in figures:
        reporter.write_line(line)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in its own event loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
