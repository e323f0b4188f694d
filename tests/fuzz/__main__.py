"""`make fuzz SECONDS=600 SEED=1`: judge generated command lines, run the allowed ones, print findings."""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.holes import HOLES, NEEDS
from tests.fuzz.hunt import Hunter, Tally, describe_line
from tests.permissions.configurations import CONFIGURATIONS
from tests.system.sandbox.walls import can

MOST_FINDINGS = 20
PROGRESS_S = 60


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long to search")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same lines")
    parser.add_argument("--workers", type=int, default=3, help="processes that search")
    parser.add_argument("--line", help="judge and run this line instead")
    parser.add_argument("--rules", choices=[*CONFIGURATIONS, "reading"], default="readers, deny")
    parser.add_argument("--hole", choices=HOLES, help="open this hole first")
    parser.add_argument(
        "--holes", action="store_true", help="open each hole in turn; all must be found"
    )
    parser.add_argument("--first", action="store_true", help="stop at the first finding")
    parser.add_argument("--no-shrink", action="store_true", help="print findings as they were made")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--tally", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = read_options()
    missing = [name for name in ("bash", "git") if shutil.which(name) is None]
    missing += [] if can("bubblewrap") else ["bubblewrap (bwrap), or the right to use it,"]
    if missing:
        sys.stderr.write(f"can't fuzz: {', '.join(missing)} not found; install it first\n")
        return 2
    if options.line is not None:
        sys.stdout.write(describe_line(options.line, options.rules))
        return 0
    if options.worker is not None:
        return work(options)
    if options.holes:
        return open_holes(options)
    return search(options)


def work(options: argparse.Namespace) -> int:
    """One worker: findings to standard output, its tally to a file."""
    hunter = Hunter(options.seed, options.worker, shrinks=not options.no_shrink, hole=options.hole)

    def save() -> None:
        if options.tally is not None:
            options.tally.write_text(json.dumps(asdict(hunter.tally)), "utf-8")

    hunter.after_round = save
    try:
        for finding in hunter.rounds(time.monotonic() + options.seconds):
            sys.stdout.write(finding.describe() + "\n")
            sys.stdout.flush()
            if options.first or hunter.tally.findings >= MOST_FINDINGS:
                break
    finally:
        save()
        hunter.close()
    return 1 if hunter.tally.findings else 0


def search(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as name:
        tallies = [Path(name) / str(number) for number in range(options.workers)]
        workers = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz", "--worker", str(number)]
                + ["--seed", str(options.seed), "--seconds", str(options.seconds)]
                + ["--tally", str(tally)]
                + (["--hole", options.hole] if options.hole else [])
                + (["--first"] if options.first else [])
                + (["--no-shrink"] if options.no_shrink else [])
            )
            for number, tally in enumerate(tallies)
        ]
        began = time.monotonic()
        while any(worker.poll() is None for worker in workers):
            with contextlib.suppress(subprocess.TimeoutExpired):
                [worker.wait(timeout=PROGRESS_S) for worker in workers]
            sys.stderr.write(f"{time.monotonic() - began:,.0f} s: {add_up(tallies).describe()}\n")
        total = add_up(tallies)
    sys.stdout.write(f"{total.describe()} (seed {options.seed}, {options.seconds:g} s)\n")
    return max(worker.returncode for worker in workers)


def add_up(tallies: list[Path]) -> Tally:
    total = Tally()
    for tally in tallies:
        with contextlib.suppress(FileNotFoundError, ValueError):
            for key, value in json.loads(tally.read_text("utf-8")).items():
                setattr(total, key, getattr(total, key) + value)
    return total


def hole_command(name: str, seed: int) -> list[str]:
    """A worker that searches for a minute with one hole open, until it finds a line."""
    options = ["--worker", "0", "--hole", name, "--first", "--no-shrink", "--seconds", "60"]
    return [sys.executable, "-m", "tests.fuzz", *options, "--seed", str(seed)]


def open_holes(options: argparse.Namespace) -> int:
    """Open each hole in a worker of its own; every one must lead to a finding."""
    lost = []
    absent = {name for name, program in NEEDS.items() if shutil.which(program) is None}
    for name in absent:
        sys.stdout.write(f"{name}: not searched, because {NEEDS[name]} is not installed\n")
    names = [name for name in HOLES if name not in absent]
    for name in names:
        started = time.monotonic()
        found = subprocess.run(
            hole_command(name, options.seed),
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        took = time.monotonic() - started
        # A traceback also ends with 1, but prints no finding.
        line = found.stdout.split("\n", 1)[0]
        sys.stdout.write(
            f"{name}: {line} ({took:.0f} s)\n"
            if found.returncode == 1 and line
            else f"{name}: NOT FOUND {found.stderr[-200:]}\n"
        )
        sys.stdout.flush()
        if found.returncode != 1 or not line:
            lost.append(name)
    sys.stdout.write(f"{len(names) - len(lost)} of {len(names)} holes found\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
