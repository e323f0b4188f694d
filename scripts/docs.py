"""Run the examples in the docs and compare their output: `make docs-check`.

`make docs` updates the generated parts. These parts of the pages in `pages()` are checked:

- A ```console fence contains lines `$ command`, each followed by its output. sh runs the command in
  an empty folder with an empty home folder and `clew` on the PATH. A line `...` matches any lines.
- A ```python fence is run as a program. Its output must match the `# -> text` comments, in order.
  ```python no-run is only compiled.
- `<!-- generated: command -->` ... `<!-- end -->` contains the output of the command.
- Every relative link must lead to an existing file.

The programs in examples/ are run like python fences. One that imports a package which is not
installed is named and left to `make e2e`, which installs all of them.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from scripts import tables

Given = TypeVar("Given")
Result = TypeVar("Result")
ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)
GENERATED = re.compile(r"(<!-- generated: ([^\n]+?) -->\n)(.*?)(<!-- end -->)", re.S)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Fault:
    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.what}"


def pages() -> list[Path]:
    roots = (
        ROOT / name
        for name in ("README.md", "AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    )
    found = (
        *roots,
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "examples").glob("*.py")),
    )
    return [p for p in found if p.exists()]


def environment(home: str) -> dict[str, str]:
    """Return the environment of a new user, without this machine's settings and keys."""
    bin_folder = Path(sys.executable).parent
    return {
        "PATH": f"{bin_folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": home,
        "LANG": "C.UTF-8",
        "CLEW_CONFIG_DIR": f"{home}/.claude",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "80",
    }


def run(command: str, folder: str) -> str:
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return done.stdout


def matches(expected: list[str], actual: list[str]) -> bool:
    """Return whether the lines match; `...` matches any lines, `…` any part of a line."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.rstrip().split("…")) + r"[ ]*\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in actual)) is not None


def console(body: str, folder: str) -> Iterator[tuple[int, str]]:
    """Run a console fence; yield each mismatch with its line offset."""
    steps: list[tuple[int, str, list[str]]] = []
    for offset, line in enumerate(body.splitlines()):
        if line.startswith("$ "):
            steps.append((offset, line[2:], []))
        elif steps:
            steps[-1][2].append(line)
        else:
            yield offset, "a console fence must begin with a line `$ command`"
    for offset, command, expected in steps:
        actual = run(command, folder).rstrip("\n").split("\n")
        if not matches(expected or [""], actual):
            shown = "\n    ".join(actual)
            yield offset, f"`{command}` printed something else:\n    {shown}"


def python(body: str, flags: str, folder: str) -> Iterator[tuple[int, str]]:
    if "no-run" in flags:
        try:
            compile(body, "<docs>", "exec")
        except SyntaxError as error:
            yield (error.lineno or 1) - 1, f"does not compile: {error.msg}"
        return
    script = Path(folder, "example.py")
    script.write_text(body, "utf-8")
    actual = run(f"{sys.executable} -X utf8 {script}", folder).rstrip("\n")
    expected = "\n".join(re.findall(r"# -> (.*)$", body, re.M))
    if not matches(expected.split("\n"), actual.split("\n")):
        yield 0, f"expected the output\n    {expected!r}\n  got\n    {actual!r}"


def check_page(path: Path) -> Iterator[Fault]:
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        with tempfile.TemporaryDirectory() as folder:
            for offset, what in python(text, "", folder):
                yield Fault(path, 1 + offset, what)
        return

    def line_of(position: int) -> int:
        return text.count("\n", 0, position) + 1

    for fence in FENCE.finditer(text):
        kind, flags, body = fence.groups()
        with tempfile.TemporaryDirectory() as folder:
            complaints: Iterator[tuple[int, str]] = iter(())
            if kind == "console":
                complaints = console(body, folder)
            elif kind == "python":
                complaints = python(body, flags, folder)
            for offset, what in complaints:
                yield Fault(path, line_of(fence.start()) + 1 + offset, what)
    for link in LINK.finditer(text):
        if not (path.parent / link[1]).exists():
            yield Fault(path, line_of(link.start()), f"dead link {link[1]}")
    if regenerated(text) != text:
        yield Fault(path, 1, "a generated part is out of date; run: make docs")


def regenerated(text: str) -> str:
    def fresh(part: re.Match[str]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            output = run(part[2], folder)
        if part[3].startswith("```"):
            output = f"```\n{output.rstrip()}\n```\n"
        return part[1] + output + part[4]

    return GENERATED.sub(fresh, text)


def run_side_by_side(work: Callable[[Given], Result], given: list[Given]) -> list[Result]:
    """Return the results in order. The work waits for programs, one on each core."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, given))


def find_missing(path: Path) -> str | None:
    """Return the package that a program needs and this environment lacks, if any."""
    names = re.findall(r"^(?:from|import) (\w+)", path.read_text("utf-8"), re.M)
    return next((name for name in names if importlib.util.find_spec(name) is None), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--write", action="store_true", help="update the generated parts")
    parser.add_argument("pages", nargs="*", type=Path, help="pages to check (default: all)")
    options = parser.parse_args()
    chosen = [p.resolve() for p in options.pages] or pages()
    if options.write:
        written = [page for page in chosen if page.suffix != ".py"]
        texts = run_side_by_side(regenerated, [page.read_text("utf-8") for page in written])
        for page, text in zip(written, texts, strict=True):
            page.write_text(text, "utf-8")
        return 0
    programs = [page for page in chosen if page.suffix == ".py"]
    missing = {page: name for page in programs if (name := find_missing(page))}
    for page, name in missing.items():
        print(f"{page.relative_to(ROOT)}: not run here, needs {name}; see make e2e")
    chosen = [page for page in chosen if page not in missing]
    found = run_side_by_side(lambda page: list(check_page(page)), chosen)
    faults = [fault for of_page in found for fault in of_page]
    stale = [] if options.pages else tables.stale()
    for fault in faults:
        print(fault)
    for path in stale:
        print(f"{path}: generated code is out of date; run: make docs")
    print(f"docs: {len(chosen)} pages, {len(faults) + len(stale)} faults")
    return 1 if faults or stale else 0


if __name__ == "__main__":
    sys.exit(main())
