"""`clew demo`: repair a project (`repair`), or play a scripted conversation (`talk`).

In the conversation, a loopback server plays the scenario, and clew's own transport, provider and
driver talk to it. The demo needs no key, network or settings, and must never run a tool.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TypeAlias

from clew.agent.conversation import Speaker
from clew.agent.deps import Question, Refused, Verdict
from clew.agent.options import Options
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.core.messages.text import format_count
from clew.core.stream.events import (
    BlockFinished,
    MessageFinished,
    TextDelta,
    ThinkingDelta,
    ToolUseReady,
    ToolUseUnusable,
)
from clew.fronts.line.telling import LineWriter, Paper
from clew.fronts.render.rows import Flow, wrap_text
from clew.providers.answer import Answering
from clew.providers.answer_events import (
    Answered,
    CompactionDue,
    DriverEvent,
    Ended,
    FellBack,
    GaveUp,
    Incomplete,
    Retrying,
    Shrunk,
    Waiting,
    Withdrawn,
)
from clew.providers.anthropic import AnthropicProvider
from clew.providers.base import ModelRequest
from clew.providers.endpoint import Endpoint
from clew.session.build import open_session
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.testing.options import describe_error, read_scenario
from clew.testing.playing import pace_scenario
from clew.testing.scenario import Scenario
from clew.testing.server import LoopbackServer

# The repair: a small project with a failing test, and a real clew session that fixes it.


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
    "clew demo: clew fixes a failing test.\n"
    "A script on a local HTTP server plays the model; everything else is real."
)

NEXT = "Next: save an API key with clew login, and run clew in your own project."


async def nobody(_: Question) -> Verdict:
    return Refused(words="the demo can't ask the user", by_person=False)


async def repair(paper: Paper, speed: float | None) -> bool:
    """Play the repair. Return whether the project's test passes at the end."""
    scenario = pace_scenario(read_scenario(SCENARIO), speed)
    telling = LineWriter(paper, see_with="")

    def say(text: str) -> None:
        paper.write(f"{wrap_text(text, paper.columns)}\n")

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
                f"\n{format_count(len(server.requests), 'request')}; {format_count(lines_written(home), 'line')} of transcript"
            )
            say(NEXT)
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
    """Return an environment without the user's key, settings and sessions."""
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": home,
        "CLEW_CONFIG_DIR": str(Path(home, "config")),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "demo",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


# The output of `clew demo`: the answer as it streams, with marked notes on other events.


DIM, BOLD, RED, PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[0m"
OPENING = "clew demo: a scripted model over real HTTP on this machine, without a key or network"


class DemoScreen:
    """The output of the demo: lines of text, optionally with colors."""

    def __init__(self, paper: Paper, *, ansi: bool) -> None:
        self._paper = paper
        self._write = paper.write
        self._ansi = ansi
        self._open = ""
        self._words = Flow(0)
        self._answers = 0
        self._retries = 0

    def opening(self) -> None:
        self._line(OPENING, DIM)

    def prompt(self, text: str) -> None:
        self._write("\n")
        self._line(f"> {text}", BOLD)

    async def event(self, event: DriverEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._stream(text, "")
            case ThinkingDelta(thinking=text):
                self._stream(text if self._open else f"(thinking) {text}", DIM)
            case BlockFinished() | MessageFinished():
                self._close()
            case ToolUseReady(block=block):
                dumps = json.dumps(block["input"], ensure_ascii=False)
                self._note(f"calls {block['name']} {dumps}")
            case ToolUseUnusable(block=block, message=message):
                self._note(f"calls {block['name']} with invalid input: {message}")
            case Withdrawn():
                self._note("withdrawn: the answer starts over")
            case Retrying(failure=failure, attempt=attempt, delay_s=delay_s):
                self._retries += 1
                self._note(f"{failure.message}", RED)
                self._note(f"attempt {attempt + 1} in {delay_s:.1f} s")
            case Waiting(silent_s=silent_s):
                self._note(f"no data for {silent_s:.0f} s")
            case FellBack(model=model):
                self._note(f"asking {model} instead")
            case Shrunk(max_tokens=most):
                self._note(f"limiting the answer to {most} tokens")
            case _:
                pass

    def ended(self, ended: Ended) -> None:
        self._close()
        match ended:
            case Answered():
                self._answers += 1
            case Incomplete(failure=failure):
                self._note(f"{failure.message}; complete blocks are kept", RED)
            case GaveUp(failure=failure, why=why):
                self._note(f"{failure.message}; {why}", RED)
            case CompactionDue():
                self._note("the conversation does not fit the model's context window", RED)

    def not_run(self, text: str) -> None:
        self._note(text)

    def closing(self, requests: int) -> None:
        self._write("\n")
        counted = (
            format_count(requests, "request"),
            format_count(self._answers, "answer"),
            format_count(self._retries, "retry", "retries"),
        )
        self._line(", ".join(counted), DIM)

    def _stream(self, text: str, style: str) -> None:
        """Write the next part of the model's answer. `style` applies until the line ends."""
        if not self._open:
            self._write(self._styled(style))
            self._open = style or PLAIN
            self._words = Flow(self._paper.columns)
        self._write(self._words.feed(printable(text)))

    def _close(self) -> None:
        if self._open:
            self._write(
                self._words.close() + self._styled(PLAIN if self._open != PLAIN else "") + "\n"
            )
            self._open = ""

    def _note(self, text: str, style: str = DIM) -> None:
        self._close()
        self._line(f"  [{text}]", style)

    def _line(self, text: str, style: str) -> None:
        words = wrap_text(printable(text), self._paper.columns)
        self._write(f"{self._styled(style)}{words}{self._styled(PLAIN)}\n")

    def _styled(self, code: str) -> str:
        return code if self._ansi else ""


def printable(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


DEMO = Path(__file__).parent / "scenarios" / "demo.yaml"
NOT_RUN = "Not run: the demo has no tools."
MAX_ROUNDS = 100
Speed: TypeAlias = float | None

BASH: Json = {
    "name": "Bash",
    "description": "Run a command in the shell.",
    "input_schema": {
        "type": "object",
        "properties": {"command": {"type": "string"}, "description": {"type": "string"}},
        "required": ["command"],
    },
}


class DemoClock:
    """A clock that divides pauses by `speed`. If `speed` is None, there are no pauses."""

    def __init__(self, speed: Speed) -> None:
        self._speed = speed

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0 if self._speed is None else seconds / self._speed)


class DemoConversation:
    """A conversation in progress. `ask` plays a prompt up to its last answer."""

    def __init__(self, provider: AnthropicProvider, screen: DemoScreen, clock: DemoClock) -> None:
        self._provider = provider
        self._screen = screen
        self._clock = clock
        self._messages: list[Json] = []
        self._tool_ids = 0

    async def ask(self, prompt: str) -> bool:
        """Play one prompt with all its tool calls. Return False if there was no answer."""
        self._screen.prompt(prompt)
        before = len(self._messages)
        self._messages.append({"role": "user", "content": prompt})
        for _ in range(MAX_ROUNDS):
            ended = await self._answer()
            self._screen.ended(ended)
            if not isinstance(ended, Answered | Incomplete):
                # Remove the unanswered prompt, so that the next one does not fail with it.
                del self._messages[before:]
                return False
            content = ended.message["content"]
            if content:
                self._messages.append({"role": "assistant", "content": content})
            calls = [block["id"] for block in content if block["type"] == "tool_use"]
            if isinstance(ended, Incomplete) or not calls:
                return isinstance(ended, Answered)
            self._screen.not_run(NOT_RUN)
            results = [
                {"type": "tool_result", "tool_use_id": call, "content": NOT_RUN} for call in calls
            ]
            self._messages.append({"role": "user", "content": results})
        return False

    async def _answer(self) -> Ended:
        request = ModelRequest(
            model="scripted-model", messages=[*self._messages], tools=[BASH], max_tokens=4096
        )
        answering = Answering(
            self._provider,
            new_tool_id=self._new_tool_id,
            clock=self._clock,
            random=lambda: 0.5,
        )
        return await answering.run(request, self._screen.event)

    def _new_tool_id(self) -> str:
        self._tool_ids += 1
        return f"toolu_demo_{self._tool_ids}"


async def play(scenario: Scenario, speed: Speed, paper: Paper, *, ansi: bool) -> bool:
    """Play the scenario. Return whether every prompt was answered."""
    screen = DemoScreen(paper, ansi=ansi)
    screen.opening()
    async with LoopbackServer(pace_scenario(scenario, speed), strict=True) as server:
        transport = HttpTransport(Network())
        provider = AnthropicProvider(Endpoint(base_url=server.url, api_key="demo"), transport)
        talk = DemoConversation(provider, screen, DemoClock(speed))
        try:
            answered = [await talk.ask(prompt) for prompt in scenario.prompts]
        finally:
            await provider.aclose()
        screen.closing(len(server.requests))
    return all(answered)


def _speed(text: str) -> Speed:
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0.01 <= speed <= 1000:
        raise argparse.ArgumentTypeError("must be a number from 0.01 to 1000, or max")
    return speed


def _is_plain() -> bool:
    """Return whether to omit colors, as for a pipe, for a dumb terminal, or if NO_COLOR is set."""
    environment = os.environ
    return (
        not sys.stdout.isatty()
        or bool(environment.get("NO_COLOR"))
        or environment.get("TERM") == "dumb"
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="clew demo",
        description="Show clew with a scripted model on this machine, without a key or network access.",
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=("repair", "talk"),
        default="repair",
        help="repair: clew fixes a failing test; talk: a conversation with network faults",
    )
    parser.add_argument(
        "--scenario",
        metavar="FILE",
        type=Path,
        help="Scenario file to play instead (format: docs/extending/scenarios.md)",
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        default=1.0,
        metavar="N",
        help="Play N times as fast; max: no pauses",
    )
    options = parser.parse_args(argv)
    talks = options.what == "talk" or options.scenario is not None
    try:
        if talks:
            scenario = read_scenario(options.scenario or DEMO)
            if not scenario.prompts:
                raise UserError(f"{options.scenario}: prompts: must not be empty for the demo")
            answered = asyncio.run(
                play(scenario, options.speed, Paper(sys.stdout), ansi=not _is_plain())
            )
        else:
            answered = asyncio.run(repair(Paper(sys.stdout), options.speed))
    except (UserError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # The reader closed the pipe; the interpreter must not try to flush again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        sys.stderr.write(f"clew demo: {describe_error(error)}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return 130
    return 0 if answered else 1
