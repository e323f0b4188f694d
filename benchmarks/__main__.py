"""`make bench`: run every bench_*.py (or those named) and print figures next to their goals."""

import platform
import sys
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
    for subject in sys.argv[1:] or subjects:
        print(f"\n{subject}")
        for figure in import_module(f"benchmarks.bench_{subject}").figures():
            print(line(figure), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
