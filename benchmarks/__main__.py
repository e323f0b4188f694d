"""`make bench`: run every bench_*.py (or those named) and print figures next to their goals."""

import platform
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

from benchmarks.measure import Figure


def line(figure: Figure) -> str:
    goal = ""
    if figure.at_most is not None:
        goal = f"goal <= {figure.at_most:g}"
    elif figure.at_least is not None:
        goal = f"goal >= {figure.at_least:g}"
    verdict = {True: "met", False: "NOT MET", None: ""}[figure.met]
    return f"  {figure.name:<58} {figure.value:>10.4g} {figure.unit:<8} {goal:<16} {verdict:<8} {figure.note}".rstrip()


def measure(subject: str) -> tuple[list[Figure], bool]:
    """Print the figures of a benchmark; return those with a goal, and whether it ended."""
    measured: list[Figure] = []
    try:
        for figure in import_module(f"benchmarks.bench_{subject}").figures():
            print(line(figure), flush=True)
            if figure.met is not None:
                measured.append(figure)
    except (AssertionError, ImportError, LookupError, OSError, RuntimeError, ValueError):
        # The other benchmarks still run, and the last line names this one.
        traceback.print_exc()
        return measured, False
    return measured, True


def verdict(measured: list[Figure], broken: list[str], elapsed_s: float) -> str:
    """Return the last line, which names what went wrong."""
    missed = [figure.name for figure in measured if not figure.met]
    minutes, seconds = divmod(round(elapsed_s), 60)
    parts = [f"bench: {len(measured) - len(missed)} of {len(measured)} goals met"]
    parts += [f"not met: {', '.join(missed)}"] if missed else []
    parts += [f"broken: {', '.join(broken)}"] if broken else []
    return "; ".join([*parts, f"{minutes}:{seconds:02}"])


def main() -> int:
    subjects = sorted(
        p.stem.removeprefix("bench_") for p in Path(__file__).parent.glob("bench_*.py")
    )
    unknown = set(sys.argv[1:]) - set(subjects)
    if unknown:
        print(
            f"no such benchmark: {', '.join(sorted(unknown))}; expected one of {', '.join(subjects)}"
        )
        return 2
    print(f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}")
    started_s = time.monotonic()
    measured: list[Figure] = []
    broken: list[str] = []
    for subject in sys.argv[1:] or subjects:
        print(f"\n{subject}", flush=True)
        figures, ended = measure(subject)
        measured += figures
        broken += [] if ended else [subject]
    print(f"\n{verdict(measured, broken, time.monotonic() - started_s)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
