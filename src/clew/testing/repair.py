"""The demo's repair: a small project whose test fails, and clew itself set to work on it.

Everything is real but the model: the session, the permissions, the tools, the transcript. Lives in a
folder of its own that is gone afterwards.
"""

import os
import sys
import tempfile
from pathlib import Path

from clew.agent.conversation import Speaker
from clew.agent.deps import Question, Refused, Verdict
from clew.agent.options import Options
from clew.core.messages.text import count_of
from clew.fronts.line.telling import LineWriter, Paper
from clew.fronts.render.rows import at_words
from clew.session.build import session as open_session
from clew.testing.options import read_scenario
from clew.testing.playing import paced
from clew.testing.server import LoopbackServer

SCENARIO = Path(__file__).parent / "scenarios" / "repair.yaml"
PROJECT = {
    "purse.py": "def total(coins):\n    return sum(coins[1:])\n",
    "test_purse.py": (
        "import unittest\n\nfrom purse import total\n\n\nclass Total(unittest.TestCase):\n"
        "    def test_every_coin_counts(self):\n        self.assertEqual(total([1, 2, 5]), 8)\n"
    ),
}
ALLOWED = ("Bash(python3 -m unittest:*)", "Read", "Edit")
HEAD = (
    "clew demo: a failing test, and clew to mend it.\n"
    "The model is a script over HTTP on this machine; all else is real."
)


async def nobody(_: Question) -> Verdict:
    return Refused(words="nobody can be asked in the demo", by_person=False)


async def repair(paper: Paper, speed: float | None) -> bool:
    """Plays the repair; whether the project's test passes in the end."""
    scenario = paced(read_scenario(SCENARIO), speed)
    telling = LineWriter(paper, see_with="")

    def say(text: str) -> None:
        paper.write(f"{at_words(text, paper.columns)}\n")

    say(HEAD)
    with tempfile.TemporaryDirectory(prefix="clew-demo-") as home:
        work = project_in(home)
        async with LoopbackServer(scenario, strict=True) as server:
            environ = environment(home, server.url)
            async with open_session(
                Options(allow=ALLOWED, is_print=True, max_turns=10),
                environ,
                str(work),
                nobody,
                entrypoint="cli",
            ) as session:
                for prompt in scenario.prompts:
                    say(f"\n> {prompt}")
                    await session.conversation.submit(
                        prompt,
                        telling.emit,
                        said_by=Speaker(source="typed", mode=session.mode),
                        context=await session.context(),
                    )
            say(
                f"\n{count_of(len(server.requests), 'request')}; {count_of(lines_written(home), 'line')} of transcript"
            )
        return "sum(coins)" in (work / "purse.py").read_text("utf-8")


def project_in(home: str) -> Path:
    work = Path(home, "purse")
    work.mkdir()
    for name, text in PROJECT.items():
        (work / name).write_text(text, "utf-8")
    return work


def lines_written(home: str) -> int:
    return sum(path.read_bytes().count(b"\n") for path in Path(home).rglob("*.jsonl"))


def environment(home: str, url: str) -> dict[str, str]:
    """Nothing of this person's: no key, no settings, no sessions."""
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": home,
        "CLEW_CONFIG_DIR": str(Path(home, "config")),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "demo",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
