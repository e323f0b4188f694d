"""Permission requests to a host or an MCP tool.

This module sends the question and converts the answer to a verdict; the answer is trusted. If
there is no host to ask, the call does not run, and the model is told why.
"""

import asyncio
from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from clew.agent.deps import Granted, Question, Refused, Verdict
from clew.core import wire
from clew.core.json_object import Json
from clew.core.messages.errors import ClewError, SettingsError
from clew.core.messages.text import (
    NOBODY_TO_ASK,
    REASON_FOR_ASKING,
    describe_subagent_rejection,
)
from clew.core.wire import HostAnswer, State
from clew.permissions.decision import Decision, merge_by_command
from clew.permissions.in_session import SessionRules
from clew.permissions.resolver import with_absolute_path
from clew.permissions.updates import (
    No,
    UnusableVerdict,
    Yes,
    make_question,
    read_verdict,
)
from clew.session.session import Session

# Requests to the other end of a channel. Each is sent, answered once, and withdrawn when it is no
# longer needed.
#
# Sessions send such requests to their host, and programs that use the library send them to their
# session.


GONE = "stream closed"


class HostError(ClewError):
    """The host has disconnected, or it answered with an error, whose text is the message."""


class HostRequests:
    """Sends requests to a host and waits for the answers. `post` sends a frame."""

    def __init__(self, post: Callable[[Json], None], new_id: Callable[[], str]) -> None:
        self._post = post
        self._new_id = new_id
        self._open: dict[str, asyncio.Future[Json]] = {}
        # Why requests can no longer be answered; empty while they can.
        self._gone = ""

    async def ask(self, subtype: str, fields: Json, *, timeout_s: float | None = None) -> Json:
        """Send a request and return its answer.

        Raise `HostError` if the request fails, and TimeoutError after `timeout_s`.
        """
        if self._gone:
            raise HostError(self._gone)
        request_id, answer = self.begin(subtype, fields)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        finally:
            self.end(request_id)

    def begin(self, subtype: str, fields: Json) -> tuple[str, asyncio.Future[Json]]:
        """Send a request. Return its ID, which must be passed to `end`, and its future answer."""
        request_id = self._new_id()
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        # Posted first: values that JSON can't represent raise an error, and nothing will answer.
        self._post(wire.make_request(request_id, subtype, fields))
        self._open[request_id] = answer
        return request_id, answer

    def end(self, request_id: str) -> None:
        """Forget a request, and withdraw it if it was not answered."""
        answer = self._open.pop(request_id)
        if not answer.done() or answer.cancelled():
            answer.cancel()
            self._post(wire.make_withdrawal(request_id))

    def awaits(self, request_id: str) -> bool:
        """Return whether a request has no answer yet."""
        answer = self._open.get(request_id)
        return answer is not None and not answer.done()

    def answered(self, answer: HostAnswer) -> None:
        """Accept an answer. Ignore it if no request is waiting for it."""
        if not self.awaits(answer.request_id):
            return
        waiting = self._open[answer.request_id]
        if answer.error is None:
            waiting.set_result(answer.response)
        else:
            waiting.set_exception(HostError(answer.error))

    def leave(self, why: str = GONE) -> None:
        """Make all waiting requests fail, because the other end is gone."""
        self._gone = why
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(HostError(why))

    @property
    def is_gone(self) -> bool:
        return bool(self._gone)

    def open_requests(self) -> list[str]:
        return list(self._open)


FAILED = "Tool permission request failed: Error: {why}"
ASKED = "can_use_tool"


async def deny_unasked(permission_prompt: Question) -> Verdict:
    text = describe_subagent_rejection() if permission_prompt.agent_id else NOBODY_TO_ASK
    words = text + REASON_FOR_ASKING.format(why=permission_prompt.why)
    return Refused(words=words, by_person=False, is_nobodys=True)


class HostPermission:
    """Asks the host for permission.

    `state` is called with the session's state before and after a question. `notice` is called with
    a description of each problem.
    """

    def __init__(
        self, host: HostRequests, *, state: Callable[[State], None], notice: Callable[[str], None]
    ) -> None:
        self._host = host
        self._state = state
        self._notice = notice

    async def ask(self, permission_prompt: Question, rules: SessionRules) -> Verdict:
        self._state("requires_action")
        described = describe_question(permission_prompt, rules)
        try:
            answer = await self._host.ask(ASKED, described)
        except HostError as error:
            return Refused(words=FAILED.format(why=error), by_person=False)
        finally:
            self._state("running")
        return keep_spelling(heed(answer, rules, self._notice), described)


def describe_question(permission_prompt: Question, rules: SessionRules) -> Json:
    """Return a question in the form for hosts, with an absolute file path for them to check."""
    from clew.permissions.suggest import make_suggestions

    block, home = permission_prompt.block, rules.standing.places.home
    if permission_prompt.folder:
        tool_input = with_absolute_path(block["input"], permission_prompt.folder, str(home))
        block = block | {"input": tool_input}
    return make_question(
        block,
        title=permission_prompt.title,
        why=permission_prompt.why,
        suggestions=[]
        if permission_prompt.is_elsewhere
        else make_suggestions(permission_prompt.request, permission_prompt.decision),
        agent_id=permission_prompt.agent_id,
        parts=describe_parts(permission_prompt.decision),
    )


def make_describer(session: Session) -> Callable[[Json], Json]:
    """Return a function that gives a call's input an absolute file path, as questions have it."""
    home = str(session.rules.standing.places.home)
    return lambda tool_input: with_absolute_path(tool_input, session.workspace.where(), home)


def keep_spelling(verdict: Verdict, described: Json) -> Verdict:
    """Return the verdict; if it approves the input that the host received, keep the call's input.

    The two inputs may spell the file path differently.
    """
    if isinstance(verdict, Granted) and verdict.input == described["input"]:
        return replace(verdict, input=None)
    return verdict


def describe_parts(decision: Decision) -> list[Json]:
    """Return the verdict on each part of a compound command; empty for any other call."""
    findings = merge_by_command(decision.findings)
    return [
        {"subject": finding.subject, "verdict": finding.verdict, "reason": finding.reason}
        for finding in findings
        if len(findings) > 1
    ]


def heed(answer: Json, rules: SessionRules, tell: Callable[[str], object], by: str = "") -> Verdict:
    """Convert an answer to a verdict and apply the permission updates in it.

    Problems with the updates are passed to `tell`.
    """
    verdict = read_verdict(answer)
    match verdict:
        case Yes():
            for problem in updated(verdict, rules):
                tell(problem)
            return Granted(input=verdict.input)
        case No():
            return Refused(words=verdict.words, stop=verdict.stops, is_deferred=verdict.defers)
        case UnusableVerdict():
            return Refused(words=FAILED.format(why=f"{by}{verdict.why}"), by_person=False)


def updated(verdict: Yes, rules: SessionRules) -> Iterator[str]:
    """Apply the permission updates of an approval. Yield a message if they cannot be applied."""
    if verdict.why_none:
        yield verdict.why_none
    if verdict.updates:
        try:
            rules.update(verdict.updates)
        except (SettingsError, OSError) as error:
            yield f"updatedPermissions: {error}"


async def ask_tool(permission_prompt: Question, name: str, session: Session) -> Verdict:
    """Ask an MCP tool for permission. The tool returns JSON text in the form of a host's answer."""
    described = describe_question(permission_prompt, session.rules)
    fields = {key: described[key] for key in ("tool_name", "input", "tool_use_id")}
    try:
        reply = await session.parts.mcp.asked(name, fields)
        answer = msgspec.json.decode(reply)
    except (ClewError, msgspec.DecodeError) as error:
        return Refused(words=FAILED.format(why=f"{name}: {error}"), by_person=False)
    problem: list[str] = []
    answer = answer if isinstance(answer, dict) else {}
    verdict = heed(answer, session.rules, problem.append, f"{name}: ")
    verdict = keep_spelling(verdict, described)
    return Refused(words=FAILED.format(why=problem[0]), by_person=False) if problem else verdict
