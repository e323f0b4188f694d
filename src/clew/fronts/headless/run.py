"""`clew -p`: one prompt, one response on standard output, one exit code.

This module handles the signals of a headless run. SIGINT interrupts the turn and keeps its work.
SIGTERM and SIGHUP do the same, but each has its own exit code. A second SIGINT exits at once.
A result is printed unless the process exits at once.
"""

import asyncio
import gc
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import msgspec

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
from clew.agent.intake import Raw
from clew.agent.options import Options
from clew.core.input import Show
from clew.core.json_object import Json
from clew.core.messages.errors import CommandLineError
from clew.core.messages.text import format_count, replace_unprintable, unescape_line
from clew.core.normalize.repairs import describe_repairs as mended_in_words
from clew.core.wire import Said
from clew.fronts.drive import Cause, Driver, FrontInput, FrontView, Line, News, Next
from clew.fronts.ends import code_of, hear_signals, is_connected, run_front
from clew.fronts.headless.permission import ask_tool, deny_unasked, make_describer
from clew.fronts.headless.result import (
    Tally,
    end_compaction,
    end_without_turn,
    exit_code,
    result_of,
)
from clew.providers.answer_events import Retrying
from clew.session.build import open_session
from clew.session.session import Session

# No context window is this large, so a longer conversation could never be sent.
MAX_PROMPT_CHARACTERS = 16 * 1024 * 1024
# How long printing a result may take after a signal. Only a stuck reader takes longer.
PRINT_GRACE_S = 3.0
# The most denied calls to name, and the most characters of their subjects.
SHOWN_CALLS, SUBJECT_CHARACTERS = 3, 60
SUBJECTS = ("command", "file_path", "url", "path", "notebook_path", "skill")


def main(options: Options) -> int:
    """Run the kind of `clew -p` that the options select, and return the exit code.

    The kinds are: only start hooks, a session for a host, and a single prompt.
    """
    if options.only_sets_up:
        return run_front(lambda: set_up(options))
    if options.output_format == "stream-json":
        return run_front(lambda: serve(options))
    return run_front(lambda: run(options, whole_prompt(options)))


async def set_up(options: Options) -> int:
    """Open a session, run its start hooks, and end it without a prompt."""
    async with open_session(
        options, os.environ, str(Path.cwd()), deny_unasked, entrypoint="sdk-cli"
    ) as session:
        for notice in session.notices:
            print(f"clew: {notice}", file=sys.stderr)
        outcome = await session.parts.hooks.waiting(PrintView(session, is_text=True).emit)
        for notice in outcome.notices:
            print(f"clew: {notice}", file=sys.stderr)
    return 0


def whole_prompt(options: Options) -> Raw:
    """Return the prompt given on the command line, followed by the piped input.

    The prompt `-` means that only the piped input is used.
    """
    prompt = "" if options.prompt == "-" and not sys.stdin.isatty() else options.prompt
    room = MAX_PROMPT_CHARACTERS - len(prompt)
    # One character more than fits, so that endless input is not read to its end.
    piped = "" if sys.stdin.isatty() else sys.stdin.read(max(0, room) + 1)
    if len(piped) > room:
        raise CommandLineError(
            f"--print: the prompt exceeds {MAX_PROMPT_CHARACTERS:,} characters; save it to a file and "
            "mention the file in the prompt"
        )
    piped = piped.rstrip("\n")
    if not (prompt.strip() or piped.strip()):
        raise CommandLineError(
            "no prompt: with --print or without a terminal, pass a prompt as an argument or on "
            "standard input"
        )
    if prompt:
        return Raw(text=prompt, more=piped, takes_notes=not piped)
    # Piped input may be a slash command, but never a shell command, because its source is unknown.
    return Raw(text=piped) if piped.startswith("/") else Raw(text="", more=piped)


async def serve(options: Options) -> int:
    """Serve a host over JSON lines: its prompts, or the one prompt given on the command line."""
    from clew.fronts.headless.channel import StdioChannel
    from clew.fronts.headless.serve import HostServer

    is_host = options.input_format == "stream-json"
    prompts = None if is_host else [given_beforehand(whole_prompt(options))]
    server = HostServer(options, StdioChannel(prompts), os.environ, str(Path.cwd()))
    hear_signals(server.stop)
    code = await server.run()
    if code == 1 and server.error:
        print(f"clew: {server.error}", file=sys.stderr)
    return code


def given_beforehand(raw: Raw) -> Said:
    """Return the prompt given on the command line in the form in which a host would send it."""
    return Said(content=raw.text, piped=raw.more)


async def run(options: Options, raw: Raw) -> int:
    began_s = time.monotonic()
    stopped_by: list[int] = []
    stopping = asyncio.Event()
    at_work: list[PrintView] = []

    def stop(number: int) -> None:
        is_heard = any(
            view.session.conversation.interrupt() or view.session.parts.tasks.awaited
            for view in at_work
        )
        is_begun = any(view.is_begun for view in at_work)
        if stopped_by or not (is_heard or is_begun):
            os._exit(128 + number)
        stopped_by.append(number)
        stopping.set()
        if not is_heard:
            # The session closes and the result is printed, unless its reader is stuck.
            asyncio.get_running_loop().call_later(PRINT_GRACE_S, os._exit, 128 + number)

    # Installed before the session opens, because a mere cancellation could be ignored then.
    hear_signals(stop)

    async def ask(question: Question) -> Verdict:
        tool = options.asks
        if tool is None or tool == "stdio":  # There is no host that can be asked.
            return await deny_unasked(question)
        return await ask_tool(question, tool, at_work[0].session)

    # A resumed conversation lives until exit; looking for garbage in it would only cost time.
    gc.disable()
    async with open_session(
        options, os.environ, str(Path.cwd()), ask, entrypoint="sdk-cli"
    ) as session:
        gc.freeze()
        gc.enable()
        view = PrintView(session, is_text=options.output_format == "text")
        for notice in session.notices:
            print(f"clew: {notice}", file=sys.stderr)
        at_work.append(view)
        before = session.ledger().in_turns
        prompt = OnePrompt(raw, view, stopping)
        await Driver(session, prompt, view, is_shaped=options.json_schema is not None).run()
        ended, tally = view.ended, view.tally
        tally.text = view.text
        report = result_of(session, ended, tally, began_s=began_s, before=before)
    for notice in session.parting():
        print(f"clew: {notice}", file=sys.stderr)
    if options.output_format == "json":
        await view.print(unescape_line(msgspec.json.encode(report)).decode())
    if view.broken is not None:
        if not stopped_by:
            raise view.broken
        # What could not be written must not be flushed at exit, which would replace the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    elif options.output_format == "text":
        explain(ended, tally)
    if stopped_by:
        return code_of(stopped_by[0])
    return 1 if session.has_lost_entries else exit_code(ended)


class OnePrompt(FrontInput):
    """The prompt given on the command line, followed by news from background tasks."""

    def __init__(self, raw: Raw, view: "PrintView", stopping: asyncio.Event) -> None:
        self._lines = [Line(raw=raw)]
        self._view = view
        self._stopping = stopping

    async def next(self) -> Next:
        if self._lines:
            return self._lines.pop()
        tasks = self._view.session.parts.tasks
        has_news = await tasks.wait_for_news(self._stopping, may_wait=self._may_wait, tell=tell)
        return News() if has_news else None

    def _may_wait(self) -> bool:
        view = self._view
        return view.was_asked and not view.ended.is_error and is_connected(1)


def tell(words: str) -> None:
    print(f"clew: {words}", file=sys.stderr)


def explain(ended: TurnEnded, tally: Tally) -> None:
    """Print what the answer does not say: why the run ended, and which calls were denied."""
    if ended.is_error and ended.message and ended.message not in tally.text:
        print(f"clew: {ended.message}", file=sys.stderr)
    elif ended.is_error and ended.reason.startswith("aborted"):
        print(f"clew: interrupted; resume with: clew --resume {tally.session_id}", file=sys.stderr)
    elif ended.reason == "stopped_by_hook":
        words = ended.message if ended.is_blocked else f"stopped by hook: {ended.message}"
        print(f"clew: {words}", file=sys.stderr)
    for denial, why in tally.firm_denials[:SHOWN_CALLS]:
        call = named(denial["tool_name"], denial["tool_input"])
        print(f"clew: {call} was denied: {replace_unprintable(why, mark='?')}", file=sys.stderr)
    firm = [denial for denial, _ in tally.firm_denials]
    if unasked := [denial for denial in tally.denials if denial not in firm]:
        print(f"clew: {refused(unasked)}", file=sys.stderr)
    if tally.deferred is not None:
        call = named(tally.deferred["name"], tally.deferred["input"])
        print(
            f"clew: a hook deferred {call}; run it with: clew -p --resume {tally.session_id} continue",
            file=sys.stderr,
        )


def refused(denials: Sequence[Json]) -> str:
    """Return a message that lists the denied calls and says how to allow them."""
    names = dict.fromkeys(named(denial["tool_name"], denial["tool_input"]) for denial in denials)
    shown_names = ", ".join(list(names)[:SHOWN_CALLS])
    suffix = f" and {len(names) - SHOWN_CALLS} more" if len(names) > SHOWN_CALLS else ""
    return (
        f"{format_count(len(denials), 'tool call')} denied: {shown_names}{suffix}; -p can't ask for "
        "approval, so allow calls with --allowedTools, --permission-mode or `clew permissions add`"
    )


def named(tool: str, arguments: Json) -> str:
    """Format a call for display: the tool and its subject."""
    subject = next((arguments[key] for key in SUBJECTS if isinstance(arguments.get(key), str)), "")
    words = replace_unprintable(" ".join(subject.split()), mark="?")
    return f"{tool}({words[:SUBJECT_CHARACTERS]})" if subject else tool


class PrintView(FrontView):
    """Collects the data for the result; prints only messages that the user must see."""

    def __init__(self, session: Session, *, is_text: bool) -> None:
        self.session = session
        self.tally = Tally(session_id=session.session_id, describe_input=make_describer(session))
        self.ended = TurnEnded(reason="completed")
        # Whether the model was asked.
        self.was_asked = False
        # Whether the prompt is in the conversation, or answered without it. From then on a result
        # follows, also while no turn can be interrupted, because the last entries are being saved.
        self.is_begun = False
        self._is_text = is_text
        # The text of the last turn that has one.
        self.text = ""
        # Why nothing more can be printed.
        self.broken: BrokenPipeError | None = None

    async def emit(self, event: EngineEvent) -> None:
        match event:
            case Recorded():
                self.is_begun = True
                for entry in event.entries:
                    self.tally.entry(entry)
            case ToolFinished():
                self.tally.finished(event)
            case FromAgent(event=NotSaved() | Noticed() | Repaired() | Retrying() as notice):
                await self.emit(notice)
            case NotSaved() | Noticed():
                for message in event.messages:
                    print(f"clew: {message}", file=sys.stderr)
            case Compacting():
                print("clew: compacting the conversation", file=sys.stderr)
            case NotCompacted(trigger="auto"):
                print(f"clew: compaction failed: {event.message}", file=sys.stderr)
            case Repaired():
                if mended := mended_in_words(event.repairs):
                    print(f"clew: {mended}", file=sys.stderr)
            case Doubted(is_held=False):
                print("clew: request sent, but the API may reject it", file=sys.stderr)
            case Retrying() if self._is_text:
                print(
                    f"clew: {event.failure.message}; retrying in {max(1, event.delay_s):.0f} s",
                    file=sys.stderr,
                )

    def turn(self, cause: Cause) -> AbstractAsyncContextManager[None]:
        # The result covers the entire run.
        self.tally.turns += cause.line is None
        return nullcontext()

    async def show(self, outcome: Show, _: Line | None) -> None:
        self.ended, self.is_begun = end_without_turn(outcome, self.tally), True
        await self._print_answer()

    async def end_turn(self, ended: TurnEnded, cause: Cause) -> None:
        self.was_asked |= cause.order is None
        self.is_begun = True
        self.ended = ended if cause.order is None else end_compaction(ended, self.tally)
        await self._print_answer()

    async def _print_answer(self) -> None:
        """Print the text of the turn that ended, because a turn about a background task may follow."""
        text, self.tally.text = self.tally.text, ""
        message = self.ended.message if self.ended.is_error else ""
        if not text or (self.text and message and message in text):
            return  # A later turn failed: its error does not replace the answer.
        if self._is_text:
            await self.print(f"\n{text}" if self.text else text)
        self.text = text

    async def print(self, words: str) -> None:
        """Print to standard output. Signals are handled even if the output is not being read."""
        if self.broken is not None:
            return
        try:
            # Flushed, because a signal just before the interpreter exits ends the process at once.
            await asyncio.to_thread(print, words, flush=True)
        except BrokenPipeError as error:
            self.broken = error
