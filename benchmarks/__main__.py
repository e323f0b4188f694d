"""`make bench`: run every bench_*.py (or those named) and print figures next to their goals."""

import platform
import sys
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


def measure(subject: str) -> tuple[int, int, bool]:
    """Print the figures of a benchmark; return the goals met, all goals, and whether it ended."""
    met = goals = 0
    try:
        for figure in import_module(f"benchmarks.bench_{subject}").figures():
            print(line(figure), flush=True)
            goals += figure.met is not None
            met += figure.met is True
    except (AssertionError, LookupError, OSError, RuntimeError, ValueError):
        # The other benchmarks still run, and the last line names this one.
        traceback.print_exc()
        return met, goals, False
    return met, goals, True


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
    met = goals = 0
    broken = []
    for subject in sys.argv[1:] or subjects:
        print(f"\n{subject}", flush=True)
        met_here, goals_here, ended = measure(subject)
        met, goals = met + met_here, goals + goals_here
        broken += [] if ended else [subject]
    print(f"\n{met} of {goals} goals met" + (f"; broken: {', '.join(broken)}" if broken else ""))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
