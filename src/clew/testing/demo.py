"""`clew demo`: the repair (repair.py), or a scripted talk over the path that real ones take.

Of the talk: a loopback server plays the scenario; clew's own transport, provider and driver talk to
it. Needs no key, no network, no settings; must never run a tool.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TypeAlias

from clew.messages.errors import UserError
from clew.providers.answer import Answering
from clew.providers.answer_events import Answered, Ended, Incomplete
from clew.providers.anthropic import AnthropicProvider
from clew.providers.base import Json, Request
from clew.providers.endpoint import Endpoint
from clew.providers.scenario import Scenario
from clew.providers.scenario_file import read_scenario
from clew.testing.demo_screen import Screen
from clew.testing.options import told
from clew.testing.pace import paced
from clew.testing.server import LoopbackServer
from clew.transport.http import HttpTransport
from clew.transport.network import Network
from clew.tui.paper import Paper

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
    """Time of which the pauses pass `speed` times faster; None does not pause at all."""

    def __init__(self, speed: Speed) -> None:
        self._speed = speed

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0 if self._speed is None else seconds / self._speed)


class Conversation:
    """The messages so far, and the way each prompt takes to its last answer."""

    def __init__(self, provider: AnthropicProvider, screen: Screen, clock: DemoClock) -> None:
        self._provider = provider
        self._screen = screen
        self._clock = clock
        self._messages: list[Json] = []
        self._tool_ids = 0

    async def ask(self, prompt: str) -> bool:
        """One prompt, with as many rounds as the model calls tools; False where no answer came."""
        self._screen.prompt(prompt)
        before = len(self._messages)
        self._messages.append({"role": "user", "content": prompt})
        for _ in range(MAX_ROUNDS):
            ended = await self._answer()
            self._screen.ended(ended)
            if not isinstance(ended, Answered | Incomplete):
                # What nobody answered is taken back: the next prompt must not meet its error too.
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
        request = Request(
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
    """The whole demo; whether every prompt was answered."""
    screen = Screen(paper, ansi=ansi)
    screen.opening()
    async with LoopbackServer(paced(scenario, speed), strict=True) as server:
        transport = HttpTransport(Network())
        provider = AnthropicProvider(Endpoint(base_url=server.url, api_key="demo"), transport)
        talk = Conversation(provider, screen, DemoClock(speed))
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
        raise argparse.ArgumentTypeError("a number from 0.01 to 1000, or max")
    return speed


def _is_plain() -> bool:
    """No colours for a pipe, a terminal that cannot show them, or a person who wants none."""
    environment = os.environ
    return (
        not sys.stdout.isatty()
        or bool(environment.get("NO_COLOR"))
        or environment.get("TERM") == "dumb"
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="clew demo",
        description="Show clew at work with a scripted model on loopback: no key, no network.",
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=("repair", "talk"),
        default="repair",
        help="repair: clew mends a failing test; talk: faults on the line, and what is kept",
    )
    parser.add_argument(
        "--scenario",
        metavar="FILE",
        type=Path,
        help="a scenario of your own to talk with (docs/scenarios.md describes the format)",
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        default=1.0,
        metavar="N",
        help="so many times faster, or max for no pauses at all",
    )
    options = parser.parse_args(argv)
    talks = options.what == "talk" or options.scenario is not None
    try:
        if talks:
            scenario = read_scenario(options.scenario or DEMO)
            if not scenario.prompts:
                raise UserError(f"{options.scenario}: prompts: nothing to ask; the demo needs some")
            answered = asyncio.run(
                play(scenario, options.speed, Paper(sys.stdout), ansi=not _is_plain())
            )
        else:
            from clew.testing.repair import repair

            answered = asyncio.run(repair(Paper(sys.stdout), options.speed))
    except (UserError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # Whoever read us has seen enough; the interpreter must not try to flush once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        sys.stderr.write(f"clew demo: {told(error)}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return 130
    return 0 if answered else 1
