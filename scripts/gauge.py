"""Print figures about the structure of the source next to those of the last release: `make gauge`.

Without a release, the figures are compared with commit 4dc56ad. They are not limits, but a commit
that makes one worse should give a reason.
"""

import ast
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from statistics import median

from clew.testing.server import serving

ROOT = Path(__file__).parents[1]
FIRST = "4dc56ad"
VAGUE = frozenset(
    [
        "one",
        "said",
        "told",
        "found",
        "made",
        "given",
        "each",
        "there",
        "here",
        "known",
        "taken",
        "kept",
        "begun",
        "asked",
        "named",
        "shown",
        "held",
        "whole",
        "wrong",
        "more",
        "rest",
        "new",
        "old",
        "now",
    ]
)
# The traced scenario: one prompt with one shell command.
PLAN = {
    "scenario": 1,
    "answers": [
        {"content": [{"tool": "Bash", "input": {"command": "echo one"}}]},
        {"text": "Done."},
    ],
}
TRACED = """
import json, sys, threading
called = set()
def note(frame, event, _):
    code = frame.f_code
    # Only functions, not module code that runs once on import.
    if event == "call" and code.co_flags & 1 and "/clew/" in code.co_filename:
        called.add((code.co_filename, code.co_firstlineno, code.co_qualname))
from clew.cli import main
sys.setprofile(note)
threading.setprofile(note)
try:
    main(sys.argv[2:])
finally:
    sys.setprofile(None)
    open(sys.argv[1], "w").write(json.dumps(sorted(called)))
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        release = last_release()
        before = Path(folder) / release
        unpack(release, before)
        now, then = measure(ROOT), measure(before)
    width = max(map(len, now))
    sys.stdout.write(f"{'':{width}}  {'now':>12}  {release:>12}\n")
    for name, value in now.items():
        sys.stdout.write(f"{name:{width}}  {value:>12}  {then[name]:>12}\n")
    return 0


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout


def last_release() -> str:
    tags = git("tag", "--list", "v*", "--sort=-version:refname").decode().split()
    return tags[0] if tags else FIRST


def unpack(commit: str, folder: Path) -> None:
    with tarfile.open(fileobj=BytesIO(git("archive", commit, "src"))) as archive:
        archive.extractall(folder, filter="data")


def measure(root: Path) -> dict[str, str]:
    source = root / "src" / "clew"
    texts = {path: path.read_text("utf-8") for path in sorted(source.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    shared = sum(count for count in classes.values() if count > 1)
    bound = [name for node in nodes for name in bindings(node)]
    graph = import_graph(source.parent, trees)
    files, lines = trace(root)
    return {
        "modules": f"{len(trees):,}",
        "lines": f"{sum(text.count(chr(10)) for text in texts.values()):,}",
        "lines of a module, median": f"{median(t.count(chr(10)) for t in texts.values()):.0f}",
        "top-level names": f"{len({p.relative_to(source).parts[0] for p in texts})}",
        "largest import circle": f"{max(map(len, circles(graph)), default=0)}",
        "classes that share their name, %": f"{100 * shared / classes.total():.1f}",
        "vague bindings, %": f"{100 * sum(n in VAGUE for n in bound) / len(bound):.1f}",
        **{f"fields of {name}": f"{most}" for name, most in largest_bags(nodes).items()},
        "one prompt: files that run": f"{files:,}",
        "one prompt: lines of their functions": f"{lines:,}",
    }


def bindings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id


def largest_bags(nodes: list[ast.AST]) -> dict[str, int]:
    """Return the number of fields of the largest context classes."""
    found = {"Options": 0, "Session": 0, "Deps": 0}
    for node in nodes:
        if isinstance(node, ast.ClassDef) and node.name in found:
            fields = sum(isinstance(statement, ast.AnnAssign) for statement in node.body)
            found[node.name] = max(found[node.name], fields)
    return found


def import_graph(top: Path, trees: Mapping[Path, ast.AST]) -> dict[str, set[str]]:
    """Return the imports of each module, including those inside functions."""
    names = {
        ".".join(path.relative_to(top).with_suffix("").parts).removesuffix(".__init__"): path
        for path in trees
    }
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        graph[name] = set()
        for node in ast.walk(trees[path]):
            if isinstance(node, ast.ImportFrom) and node.module:
                within = {f"{node.module}.{alias.name}" for alias in node.names} & names.keys()
                graph[name] |= within or {node.module} & names.keys()
        graph[name].discard(name)
    return graph


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    reached = {name: reach(name, graph) for name in graph}
    return {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in graph
        if name in reached[name]
    }


def reach(name: str, graph: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[name])
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += graph[module]
    return found


def trace(root: Path) -> tuple[int, int]:
    """Return the number of files with functions that one prompt calls, and the lines of those functions."""
    with tempfile.TemporaryDirectory() as folder, serving(PLAN) as server:
        report = Path(folder) / "called"
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "PYTHONPATH": str(root / "src"),
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "sk-ant-gauge",
        }
        words = [str(report), "-p", "look", "--allowedTools", "Bash(echo:*)"]
        subprocess.run(
            [sys.executable, "-c", TRACED, *words],
            cwd=folder,
            env=environ,
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        called = json.loads(report.read_text("utf-8"))
    by_file: dict[str, set[int]] = {}
    for path, line, _ in called:
        by_file.setdefault(path, set()).add(line)
    return len(by_file), sum(function_lines(Path(path), at) for path, at in by_file.items())


def function_lines(path: Path, begins: set[int]) -> int:
    lines: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            begin = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if begin in begins:
                lines.update(range(begin, (node.end_lineno or begin) + 1))
    return len(lines)


if __name__ == "__main__":
    sys.exit(main())
