"""`clew attach`: a terminal as a viewer of a remote session.

The viewer shows the session's numbered events and sends prompts, answers and interrupts. It stores
nothing: after a lost connection, it reads the missed events from the server.
"""

import argparse
import asyncio
import os
import random
import sys
from collections.abc import Callable

from clew.agent.events import ToolFinished, ToolStarted
from clew.core import wire
from clew.core.json_object import Json, list_of, object_of
from clew.core.messages.errors import UserError
from clew.core.messages.text import (
    CANCELLED,
    INTERRUPTED_WHILE_RUNNING,
    replace_unprintable,
)
from clew.core.regex import lazy_pattern
from clew.fronts.ends import hear_signals, run_front
from clew.fronts.headless.channel import Input
from clew.fronts.line.telling import LineWriter, Paper
from clew.fronts.remote.keys import protect
from clew.fronts.remote.service import (
    ServiceError,
    SessionService,
    delay_s,
    open_service,
    read_event,
    read_session_id,
    session_path,
)
from clew.fronts.render.stories import title_of
from clew.record.stores.sealing import SealError
from clew.system.clock import make_id
from clew.system.command_groups import show

HELP = "y or n [reason] to answer, /stop to interrupt, /mode MODE, /model MODEL, /quit to exit"
# A word that is a command, not a path at the beginning of a prompt.
COMMAND = lazy_pattern(r"/[a-z][a-z-]*")
YES, NO = frozenset({"y", "yes"}), frozenset({"n", "no"})
SHOWN_CHARACTERS = 2_000


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="clew attach",
        description="Follow a remote session, send prompts and answer its questions.",
        epilog=HELP,
    )
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help="Session ID (default: list sessions)"
    )
    parser.add_argument(
        "--server",
        default="",
        metavar="URL",
        help="Address of the server (default: CLEW_REMOTE_URL)",
    )
    parser.add_argument(
        "--after", type=int, default=0, metavar="N", help="Show only events after this number"
    )
    parser.add_argument("--json", action="store_true", help="Print events as JSON lines")
    options = parser.parse_args(argv)
    return run_front(lambda: run(options))


async def run(options: argparse.Namespace) -> int:
    async with open_service(options.server, os.environ) as service:
        if options.session is None:
            return await list_sessions(service)
        show_event = print_json if options.json else PrintLines().show
        viewer = RemoteViewer(service, options.session, show_event, after=options.after)
        viewer.hides_own = not options.json
        hear_signals(viewer.hear_signal)
        return await viewer.run()


async def list_sessions(service: SessionService) -> int:
    for session in await service.list_sessions():
        state = session.get("connection_status"), session.get("worker_status")
        is_there = state[0] == "connected"
        title = replace_unprintable(str(session.get("title")), mark="?")
        show(f"{session.get('session_id')}  {state[1] if is_there else 'away'}  {title}")
    return 0


def print_json(about: Json) -> None:
    sys.stdout.buffer.write(wire.encode(about) + b"\n")
    sys.stdout.buffer.flush()


class PrintLines:
    """Shows events in the format of line mode: each call when it begins and when it ends."""

    def __init__(self) -> None:
        self._writer = LineWriter(Paper(sys.stdout), see_with="")
        # The calls without a result, by ID.
        self._calls: dict[str, Json] = {}

    def show(self, about: Json) -> None:
        payload = object_of(about.get("payload"))
        match payload.get("type"):
            case "assistant" | "user" if payload.get("parent_tool_use_id"):
                pass  # The result of the subagent's call says what it did.
            case "assistant":
                self._show_response(payload)
            case "user" if not payload.get("isSynthetic"):
                self._show_input(payload)
            case "result" if payload.get("is_error") and not is_stopped(payload):
                self._writer.line(f"error: {payload.get('result') or payload.get('subtype')}")
            case "result":
                self._writer.ring()
            case "system" if payload.get("subtype") in ("informational", "rewound"):
                self._writer.line(str(payload.get("content")))
            case "control_request" if about.get("source") == "worker":
                self._writer.line(describe_question(object_of(payload.get("request"))))
                self._writer.ring()
            case "note":
                self._writer.line(str(payload.get("content")))

    def _show_response(self, payload: Json) -> None:
        message = object_of(payload.get("message"))
        for block in map(object_of, list_of(message.get("content"))):
            if block.get("type") == "tool_use":
                self._calls[str(block.get("id"))] = block
                self._writer.feed(ToolStarted(block=block, title=title_of(block)))
            else:
                one = payload | {"message": message | {"content": [block]}}
                self._writer.history([one], title_of)

    def _show_input(self, payload: Json) -> None:
        message = object_of(payload.get("message"))
        blocks = [object_of(block) for block in list_of(message.get("content"))]
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if not results:
            self._writer.history([payload], title_of)
        for result in results:
            call = self._calls.pop(str(result.get("tool_use_id")), None)
            if result.get("content") in (CANCELLED, INTERRUPTED_WHILE_RUNNING):
                pass  # Text for the model; the next message says that the turn was interrupted.
            elif call is not None:
                # Streams and transcripts have different names for the structured result.
                entry = payload | {
                    "message": message | {"content": [result]},
                    "toolUseResult": payload.get("tool_use_result"),
                }
                is_error = result.get("is_error") is True
                self._writer.feed(ToolFinished(block=call, entry=entry, is_error=is_error))


def is_stopped(result: Json) -> bool:
    """Return whether the turn was interrupted, which an earlier message has already shown."""
    return str(result.get("terminal_reason")).startswith("aborted")


def describe_question(request: Json) -> str:
    """Describe a question: the tool, its input (shortened if long) and the reason for asking."""
    arguments = object_of(request.get("input"))
    tool = request.get("tool_name") or request.get("subtype")
    lines = "\n".join(f"  {name}: {value}" for name, value in arguments.items())
    why = request.get("decision_reason") or request.get("description") or ""
    cut = lines if len(lines) <= SHOWN_CHARACTERS else lines[:SHOWN_CHARACTERS] + " [...]"
    return f"{tool}\n{cut}\n{why}\nAllow this call? y, or n [reason]"


class RemoteViewer:
    """One viewer of one session. Sends typed messages in order, each exactly once."""

    def __init__(
        self, service: SessionService, session: str, show: Callable[[Json], None], *, after: int
    ) -> None:
        self._service = service
        self._session = session
        self._show = show
        self._after = after
        # The open questions, from the oldest, by request ID.
        self._questions: dict[str, Json] = {}
        self._typed: asyncio.Queue[Json] = asyncio.Queue()
        self._own: set[str] = set()
        # The typed commands whose requests have no answer yet, by request ID.
        self._asked: dict[str, str] = {}
        self.hides_own = self._is_told = False
        self._left = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        works = [
            asyncio.create_task(work())
            for work in (self._watch, self._send_typed, self._read_typed, self._leave)
        ]
        done, waiting = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await asyncio.wait(works)
        for task in done:
            task.result()
        return self._code

    async def _leave(self) -> None:
        await self._left.wait()

    def hear_signal(self, _number: int) -> None:
        self._left.set()

    def _note(self, words: str) -> None:
        self._show({"payload": {"type": "note", "content": words}})

    # -- watching

    async def _watch(self) -> None:
        attempt = 0
        path = f"{session_path(self._session)}/events/stream"
        while True:
            try:
                async for event in self._service.stream(path, self._after):
                    self._take(read_event(event))
                    attempt = 0
            except ServiceError as error:
                if not error.is_passing:
                    raise UserError(str(error)) from None
                if attempt == 0:
                    self._note(f"connection lost, reconnecting: {error}")
            await asyncio.sleep(delay_s(attempt, random.random))
            attempt += 1

    def _take(self, about: Json) -> None:
        seq, payload = about.get("sequence_num"), object_of(about.get("payload"))
        if isinstance(seq, int):
            if seq <= self._after:
                return
            self._after = seq
        try:
            about = self._service.open(about, read_session_id(self._session))
            payload = object_of(about.get("payload"))
        except SealError as error:
            if not self._is_told:
                self._note(f"this session is sealed: {error}")
            self._is_told = True
        request_id = str(payload.get("request_id"))
        match payload.get("type"):
            case "control_request" if about.get("source") == "worker":
                self._questions[request_id] = object_of(payload.get("request"))
            case "control_cancel_request":
                self._questions.pop(request_id, None)
            case "control_response":
                response = object_of(payload.get("response"))
                answered = str(response.get("request_id"))
                if response.get("subtype") != "error":
                    self._questions.pop(answered, None)
                if asked := self._asked.pop(answered, ""):
                    self._note(f"{asked}: {response.get('error') or 'done'}")
            case "user" if self.hides_own and payload.get("uuid") in self._own:
                return  # The screen already shows it as it was typed.
        self._show(about)

    # -- sending

    async def _read_typed(self) -> None:
        lines = Input(0, asyncio.get_running_loop())
        while (line := await lines.next()) is not None:
            text = line.decode("utf-8", "replace").strip()
            if text == "/quit":
                break
            if text:
                self._say(text)
        if not sys.stdin.isatty():
            # Input from a program has ended: send all of it, then exit.
            await self._typed.join()

    def _say(self, text: str) -> None:
        """Queue a typed line: `y` or `n` answers an open question; any other line is a prompt."""
        word, _, rest = text.partition(" ")
        if self._questions and word.lower() in YES | NO:
            request_id, question = next(iter(self._questions.items()))
            del self._questions[request_id]
            verdict: Json = {"behavior": "allow", "updatedInput": question.get("input", {})}
            if word.lower() in NO:
                verdict = {"behavior": "deny", "message": rest or "The user denied this call."}
            answer = wire.make_success(request_id, verdict)
            self._typed.put_nowait(answer | {"uuid": make_id()})
            return
        payload: Json = {"type": "user", "message": {"role": "user", "content": text}}
        request_id = make_id()
        match word:
            case "/stop":
                payload = wire.make_request(request_id, "interrupt", {})
            case "/mode":
                payload = wire.make_request(request_id, "set_permission_mode", {"mode": rest})
            case "/model":
                payload = wire.make_request(request_id, "set_model", {"model": rest})
            case _ if COMMAND.fullmatch(word):
                self._note(f"unknown command {word}; {HELP}")
                return
        if payload["type"] == "control_request" and word != "/stop":
            self._asked[request_id] = text
        self._own.add(name := make_id())
        self._typed.put_nowait(payload | {"uuid": name})

    async def _send_typed(self) -> None:
        while True:
            await self._send_one(await self._typed.get())
            self._typed.task_done()

    async def _send_one(self, payload: Json) -> None:
        """Send a message, with retries; its UUID prevents storing it twice."""
        attempt = 0
        payload = protect(payload, read_session_id(self._session), self._service.sealer)
        while True:
            try:
                results = await self._service.send(self._session, [payload])
            except ServiceError as error:
                if not error.is_passing:
                    self._note(f"not sent: {error}")
                    return
                await asyncio.sleep(delay_s(attempt, random.random))
                attempt += 1
                continue
            for result in results:
                if by := result.get("answered_by"):
                    self._note(f"not sent: the question was already answered by {by}")
            return
