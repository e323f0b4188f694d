"""The modules loaded before the first response are a list, because every run pays for them."""

import subprocess
import sys

# Each of these costs more than the module that would have wanted it.
NOT_LOADED = {
    "anthropic",
    "httpcore2",
    "httpx2",
    "http",
    "http.client",
    "email",
    "urllib",
    "urllib.request",
    "pydantic",
    "random",
    "ipaddress",
    "pathlib",
    "tempfile",
    "argparse",
    "yaml",
    "hypothesis",
    "clew.core.catalog.added",
    "clew.testing",
}
PROGRAM = """
import sys
import clew.providers.anthropic, clew.providers.answer
print(*sys.modules)
"""


def test_the_way_to_an_answer_loads_nothing_it_does_not_need() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    bare = subprocess.run(
        [sys.executable, "-I", "-c", "import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert (set(done.stdout.split()) - set(bare.stdout.split())) & NOT_LOADED == set()
