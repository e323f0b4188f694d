"""A decision with 500 rules, and loading the settings that contain them.

The peer of a decision is parsing the same command line with the same parser: the cost of reading the
shell syntax before any decision. The peer of loading is decoding the JSON.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.permissions.usual import share
from tests.permissions.world import World

from benchmarks.measure import Figure, cpu_s
from clew.permissions.decide import decide
from clew.permissions.request import Context, PermissionRequest
from clew.permissions.resolver import make_resolver
from clew.permissions.rules import Anchors, RuleSet, read_rules
from clew.permissions.session_rules import load_current_rules
from clew.permissions.shell import parser
from clew.system.config.load import load_settings
from clew.system.config.paths import find_places

CALLS = 400
COMMAND = "git log --oneline -5"
LINE = "cd src && npm run test -- --watch=false 2>&1 | tail -20"


def settings() -> dict[str, object]:
    """Return 500 rules: commands, folders, suffixes, domains; a third of them restrict."""
    allow = [f"Bash(tool{i} run *)" for i in range(200)] + [
        f"Edit(src/part{i}/**)" for i in range(60)
    ]
    allow += [f"WebFetch(domain:host{i}.example.com)" for i in range(60)]
    deny = [f"Read(secret{i}/**)" for i in range(60)] + [f"Read(*.k{i})" for i in range(60)]
    ask = [f"Bash(deploy{i}:*)" for i in range(60)]
    return {"permissions": {"allow": allow, "deny": deny, "ask": ask}}


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        yield from measured(folder)
        allowed, lost = share(World(folder / "usual"))
        yield Figure(
            name="read-only commands allowed at 4dc56ad that are still allowed",
            value=100 * allowed,
            unit="%",
            at_least=95,
            note=f"{len(lost)} lost, as {lost[0]}" if lost else "none lost",
        )


def measured(folder: Path) -> Iterator[Figure]:
    home = folder / "home"
    (home / ".claude").mkdir(parents=True)
    (folder / "work" / "src").mkdir(parents=True)
    text = json.dumps(settings(), indent=2)
    (home / ".claude" / "settings.json").write_text(text, "utf-8")
    environ = {"HOME": str(home)}
    cwd = folder / "work"
    places = find_places(environ, cwd)
    rules, _, _ = read_rules(load_settings(places).layers)
    resolve = make_resolver(cwd=str(cwd), home=str(home))
    held = RuleSet(rules, anchors=Anchors(cwd=str(cwd), home=str(home)), resolve=resolve)
    context = Context(cwd=str(cwd), home=str(home))

    def deciding(request: PermissionRequest) -> float:
        def work() -> None:
            for _ in range(CALLS):
                decide(request, held, context, resolve)

        return cpu_s(work) / CALLS * 1e6

    def parsing(line: str) -> float:
        data = line.encode()

        def work() -> None:
            for _ in range(CALLS):
                parser().parse(data)

        return cpu_s(work) / CALLS * 1e6

    yield Figure(
        name=f"a decision, {len(rules)} rules: {COMMAND}",
        value=deciding(PermissionRequest(tool="Bash", input={"command": COMMAND})),
        unit="us",
        at_most=60,
        note=f"the bare parse: {parsing(COMMAND):.0f} us",
    )
    yield Figure(
        name="a decision: three commands and a redirection",
        value=deciding(PermissionRequest(tool="Bash", input={"command": LINE})),
        unit="us",
        at_most=200,
        note=f"the bare parse: {parsing(LINE):.0f} us",
    )
    yield Figure(
        name="a decision: Read src/a.py",
        value=deciding(PermissionRequest(tool="Read", input={"file_path": "src/a.py"})),
        unit="us",
        at_most=200,
    )
    yield Figure(
        name="a decision: WebFetch",
        value=deciding(
            PermissionRequest(tool="WebFetch", input={"url": "https://host9.example.com/x"})
        ),
        unit="us",
        at_most=200,
    )
    bare = cpu_s(lambda: json.loads(text)) * 1e3
    yield Figure(
        name="settings load, 500 rules",
        value=cpu_s(lambda: load_settings(places)) * 1e3,
        unit="ms",
        at_most=3,
        note=f"the bare decode: {bare:.2f} ms",
    )
    yield Figure(
        name="settings, rules and index, ready to decide",
        value=cpu_s(lambda: load_current_rules(environ, cwd)) * 1e3,
        unit="ms",
    )
