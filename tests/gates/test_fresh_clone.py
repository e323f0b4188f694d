"""A newcomer's first minutes.

A clone, `make`, `make demo`, and the published SDK with a scenario.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gates.house import ROOT

ASK = """
import sys
import anthropic
with anthropic.Anthropic(base_url=sys.argv[1], api_key="none") as client:
    question = {"model": "any", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
    with client.messages.stream(**question) as stream:
        print(stream.get_final_text())
"""


def bare(home: Path) -> dict[str, str]:
    """A clean machine: no home, no caches, no settings except those of its network."""
    network = ("proxy", "ssl_cert", "requests_ca", "pip_index", "pip_cert", "pip_trusted")
    kept = {k: v for k, v in os.environ.items() if any(word in k.lower() for word in network)}
    path = os.pathsep.join(
        part
        for part in os.environ["PATH"].split(os.pathsep)
        if Path(part) != Path(sys.executable).parent
    )
    return {**kept, "PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}


def said(*command: str | Path, cwd: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.e2e
def test_a_fresh_clone_shows_its_demo_with_nothing_else_typed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    clone = tmp_path / "clone"
    said("git", "clone", "--quiet", ROOT, clone, cwd=tmp_path, env=bare(home))
    assert "make demo" in said("make", cwd=clone, env=bare(home))
    python = f"PYTHON={sys.base_prefix}/bin/python3"
    shown = said("make", python, "demo", cwd=clone, env=bare(home))
    assert "`total` now counts every coin" in shown
    assert said("git", "status", "--porcelain", cwd=clone, env=bare(home)) == ""


@pytest.mark.e2e
def test_the_published_sdk_is_answered_by_a_scenario_served_in_a_process(tmp_path: Path) -> None:
    scenario = tmp_path / "own.yaml"
    scenario.write_text(
        "scenario: 1\n"
        "answers:\n"
        "  - {status: 529, headers: {retry-after: 0}}\n"
        "  - {text: I am a script., times: always}\n",
        "utf-8",
    )
    serve = [sys.executable, "-m", "clew.testing.server", "--strict", str(scenario)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, encoding="utf-8") as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        try:
            asked = said(sys.executable, "-c", ASK, url, cwd=tmp_path, env=bare(tmp_path))
            assert asked == "I am a script.\n"
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0


def test_every_deep_target_has_something_to_run() -> None:
    """An unused marker makes its target fail or, worse, pass."""
    texts = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    for marker in ("laws", "e2e", "crash"):
        # A name put together, so that this line is no bearer of it.
        assert any("mark." + marker in text for text in texts), marker
