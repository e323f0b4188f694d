"""`clew -p`: one prompt, one answer on standard output, one exit code.

Owns the signals of a headless run: SIGINT stops the turn and keeps its work, SIGTERM and SIGHUP do
and end with their own code. A second SIGINT ends at once. A result is said whatever happened.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from clew.agent.conversation import Speaker
from clew.agent.deps import Question, Verdict
from clew.agent.events import (
    Compacting,
    Doubted,
    EngineEvent,
    FromAgent,
    NotCompacted,
    Noticed,
    NotSaved,
    Recorded,
    Repaired,
    ToolFinished,
    TurnEnded,
)
from clew.agent.intake import Raw, Turn
from clew.agent.options import Options
from clew.commands.line import take_line
from clew.core.input import CompactSession
from clew.core.json_object import Json
from clew.core.ledger.totals import usage_by_model
from clew.core.messages.errors import ClewError, CommandLineError
from clew.core.messages.text import count_of, spelled
from clew.core.normalize.repairs import in_words as mended_in_words
from clew.core.wire import Said
from clew.fronts.headless.permission import ask_tool, nobody
from clew.fronts.headless.result import (
    Shaped,
    Tally,
    compacted,
    cost_of,
    done_beside,
    exit_code,
    result,
    usage_of,
)
from clew.providers.answer_events import Retrying
from clew.session.build import session as open_session
from clew.session.session import Session
from clew.system.clock import new_id

# No window holds as much, and a conversation with it in could never be sent.
MAX_PROMPT_CHARACTERS = 16 * 1024 * 1024
# Of calls that were not allowed: so many, by what they would have worked on.
SHOWN_CALLS, SUBJECT_CHARACTERS = 3, 60
SUBJECTS = ("command", "file_path", "url", "path", "notebook_path", "skill")
ENDED_BY = {signal.SIGTERM: 143, signal.SIGHUP: 129}


def main(options: Options) -> int:
    """Runs one prompt; what is wrong with the call itself is said on standard error."""
    try:
        with asyncio.Runner() as runner:
            if options.only_sets_up:
                return runner.run(set_up(options))
            if options.output_format == "stream-json":
                return runner.run(serve(options))
            return runner.run(run(options, whole_prompt(options)))
    except ClewError as error:
        print(f"clew: {error}", file=sys.stderr)
        return 2 if isinstance(error, CommandLineError) else 1
    finally:
        # How it ended is said. While the interpreter leaves, a signal would put its own code over it.
        for number in (signal.SIGINT, *ENDED_BY):
            signal.signal(number, signal.SIG_IGN)


def hear_signals(stop: Callable[[int], None]) -> None:
    """Has signals told to the loop; also those that come when it is over, which asyncio's own would
    give back to the system before anybody else could take them."""
    loop = asyncio.get_running_loop()

    def tell(number: int, _frame: object) -> None:
        if loop.is_closed():
            os._exit(128 + number)
        loop.call_soon_threadsafe(stop, number)

    for number in (signal.SIGINT, *ENDED_BY):
        signal.signal(number, tell)


async def set_up(options: Options) -> int:
    """A session that nobody says anything in: its hooks of the beginning run, and it ends."""
    async with open_session(
        options, os.environ, str(Path.cwd()), nobody, entrypoint="sdk-cli"
    ) as session:
        for notice in session.notices:
            print(f"clew: {notice}", file=sys.stderr)
        front = PrintFront(Tally(session_id=session.session_id), quiet=False)
        said = await session.parts.hooks.waiting(front.emit)
        for notice in said.notices:
            print(f"clew: {notice}", file=sys.stderr)
    return 0


def whole_prompt(options: Options) -> Raw:
    """The prompt of the command line, and what is piped in behind it."""
    room = MAX_PROMPT_CHARACTERS - len(options.prompt)
    # One more than there is room for: who writes without an end is not heard to it.
    piped = "" if sys.stdin.isatty() else sys.stdin.read(max(0, room) + 1)
    if len(piped) > room:
        raise CommandLineError(
            f"--print: a prompt of more than {MAX_PROMPT_CHARACTERS:,} characters fits into no "
            "request; put it into a file and name the file"
        )
    piped = piped.rstrip("\n")
    if not (options.prompt.strip() or piped.strip()):
        raise CommandLineError("--print needs a prompt, as an argument or on standard input")
    if options.prompt:
        return Raw(text=options.prompt, more=piped)
    # Of what is only piped in, a command may be meant; a line for the shell may be anybody's.
    return Raw(text=piped) if piped.startswith("/") else Raw(text="", more=piped)


async def serve(options: Options) -> int:
    """Talks to a host in lines of JSON; what it writes, or one prompt that is given beforehand."""
    from clew.fronts.headless.channel import StdioChannel
    from clew.fronts.headless.serve import HostServer

    is_host = options.input_format == "stream-json"
    said = None if is_host else [given_beforehand(whole_prompt(options))]
    server = HostServer(options, StdioChannel(said), os.environ, str(Path.cwd()))
    hear_signals(server.stop)
    return await server.run()


def given_beforehand(raw: Raw) -> Said:
    """The prompt of the command line as a host would send it."""
    return Said(content=raw.text, piped=raw.more)


async def run(options: Options, raw: Raw) -> int:
    begin = time.monotonic()
    stopped_by: list[int] = []
    stopping = asyncio.Event()
    at_work: list[Session] = []

    def stop(number: int) -> None:
        is_heard = any(
            one.conversation.interrupt() or one.parts.agents.are_working for one in at_work
        )
        if stopped_by or not is_heard:
            os._exit(128 + number)
        stopped_by.append(number)
        stopping.set()

    # Before there is a session: what is only cancelled then may go on as if nobody had said anything.
    hear_signals(stop)

    async def ask(asked: Question) -> Verdict:
        tool = options.asks
        if tool is None or tool == "stdio":  # there is no host that could be asked
            return await nobody(asked)
        return await ask_tool(asked, tool, at_work[0])

    async with open_session(
        options, os.environ, str(Path.cwd()), ask, entrypoint="sdk-cli"
    ) as session:
        tally = Tally(session_id=session.session_id)
        front = PrintFront(tally, quiet=options.output_format != "text")
        session.parts.agents.heard = front.emit
        for notice in session.notices:
            print(f"clew: {notice}", file=sys.stderr)

        at_work.append(session)
        taken = await take_line(session, raw, front.emit)
        if isinstance(taken, Turn):
            shaped = Shaped(
                session.conversation, front.emit, is_wanted=options.json_schema is not None
            )
            ended = await shaped.submit(
                taken.prompt,
                tally,
                said_by=Speaker(source="sdk", mode=session.mode),
                context=taken.context,
            )
            while not ended.is_error and await session.parts.agents.settled(stopping):
                ended = await session.conversation.answer_unheard(front.emit)
        elif isinstance(taken, CompactSession):
            ended = compacted(await session.conversation.compact(taken, front.emit), tally)
        else:
            ended = done_beside(taken, tally)
        ledger = session.ledger()
        tally.api_ms = round(session.costs.spending.state.api_ms)
        said = result(
            ended,
            tally,
            uuid=new_id(),
            duration_ms=round((time.monotonic() - begin) * 1000),
            usage=usage_of(ledger.total - session.costs.past.spend),
            cost_usd=cost_of(ledger.total),
            model_usage=usage_by_model(ledger),
        )
    for notice in session.parting():
        print(f"clew: {notice}", file=sys.stderr)
    # Beside the loop: a signal must be heard also while nobody reads what is printed.
    await asyncio.to_thread(show, ended, tally, said, as_json=options.output_format == "json")
    return ENDED_BY.get(signal.Signals(stopped_by[0]), 130) if stopped_by else exit_code(ended)


def show(ended: TurnEnded, tally: Tally, said: Json, *, as_json: bool) -> None:
    if as_json:
        print(spelled(msgspec.json.encode(said)).decode())
        return
    if tally.text:
        print(tally.text)
    if ended.is_error and ended.message and ended.message not in tally.text:
        print(f"clew: {ended.message}", file=sys.stderr)
    elif ended.is_error and ended.reason.startswith("aborted"):
        print(f"clew: interrupted; clew --resume {tally.session_id} goes on", file=sys.stderr)
    if tally.denials:
        print(f"clew: {refused(tally.denials)}", file=sys.stderr)
    if tally.deferred is not None:
        call = named(tally.deferred["name"], tally.deferred["input"])
        print(
            f"clew: a hook put {call} off; clew -p --resume {tally.session_id} makes it anew",
            file=sys.stderr,
        )


def refused(denials: Sequence[Json]) -> str:
    """The calls that did not run, for who started this and was not asked; and what would let them."""
    names = dict.fromkeys(named(denial["tool_name"], denial["tool_input"]) for denial in denials)
    shown = ", ".join(list(names)[:SHOWN_CALLS])
    more = f" and {len(names) - SHOWN_CALLS} more" if len(names) > SHOWN_CALLS else ""
    return (
        f"{count_of(len(denials), 'call')} not allowed: {shown}{more}; nobody is asked with -p: "
        "--allowedTools or --permission-mode allow more, `clew permissions` keeps it"
    )


def named(tool: str, given: Json) -> str:
    """A call by its tool and what it would have worked on."""
    subject = next((given[key] for key in SUBJECTS if isinstance(given.get(key), str)), "")
    words = "".join(c if c.isprintable() else "?" for c in " ".join(subject.split()))
    return f"{tool}({words[:SUBJECT_CHARACTERS]})" if subject else tool


class PrintFront:
    """Takes note of what the result needs; of the rest only what a person must know is said."""

    def __init__(self, tally: Tally, *, quiet: bool) -> None:
        self._tally = tally
        self._quiet = quiet

    async def emit(self, event: EngineEvent) -> None:
        match event:
            case Recorded():
                for entry in event.entries:
                    self._tally.entry(entry)
            case ToolFinished():
                self._tally.finished(event)
            case FromAgent(event=NotSaved() | Noticed() | Repaired() | Retrying() as said):
                await self.emit(said)
            case NotSaved() | Noticed():
                for message in event.messages:
                    print(f"clew: {message}", file=sys.stderr)
            case Compacting():
                print("clew: the conversation is being summarised", file=sys.stderr)
            case NotCompacted(trigger="auto"):
                print(
                    f"clew: the conversation was not summarised: {event.message}", file=sys.stderr
                )
            case Repaired():
                if mended := mended_in_words(event.repairs):
                    print(f"clew: {mended}", file=sys.stderr)
            case Doubted(is_held=False):
                print("clew: sent, though by the rules it would be refused", file=sys.stderr)
            case Retrying() if not self._quiet:
                print(
                    f"clew: {event.failure.message}; trying again in {event.delay_s:.0f} s",
                    file=sys.stderr,
                )
