"""docs/internals/life-of-a-prompt.md describes the order of calls.

A real run is traced and compared.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from clew.testing.server import serving
from tests.fronts.headless.clew_process import environment

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "life-of-a-prompt.md"
STEP = re.compile(r"\[`([\w.]+)`\]\(\.\./\.\./src/([\w/]+)\.py\)")
ALLOWED = ("--allowedTools", "Bash(echo:*)")
TRACED = """
import json, sys, threading
from pathlib import Path

first = {}

def note(frame, event, arg):
    if event == "call":
        module = frame.f_globals.get("__name__", "").replace(".", "/")
        first.setdefault(f"{module} {frame.f_code.co_qualname}", len(first))

from clew.cli import main
sys.setprofile(note)
threading.setprofile(note)
try:
    main(sys.argv[2:])
finally:
    sys.setprofile(None)
    Path(sys.argv[1]).write_text(json.dumps(list(first)), "utf-8")
"""


def traced(home: Path) -> list[str]:
    """Return every function of one run as `module name`, in the order of first calls."""
    plan = {
        "scenario": 1,
        "answers": [
            {"content": ["I look.", {"tool": "Bash", "input": {"command": "echo one"}}]},
            {"text": "Done."},
        ],
    }
    with serving(plan, strict=True) as server:
        done = subprocess.run(
            [sys.executable, "-c", TRACED, str(home / "trace"), "-p", "look", *ALLOWED],
            cwd=home,
            env=environment(home, server.url),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert done.stdout == b"Done.\n", done.stderr
    return list(json.loads((home / "trace").read_text("utf-8")))


def test_the_page_tells_the_order_of_first_calls(tmp_path: Path) -> None:
    steps = [f"{module} {name}" for name, module in STEP.findall(PAGE.read_text("utf-8"))]
    assert len(re.findall(r"(?m)^\d+\. ", PAGE.read_text("utf-8"))) == 10
    assert len(steps) > 20
    order = traced(tmp_path)
    assert [step for step in steps if step not in order] == []
    assert steps == sorted(steps, key=order.index)
