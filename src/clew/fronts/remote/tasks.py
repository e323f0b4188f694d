"""Remote tasks of a session, which run on another machine and are watched and ended from here.

A remote task is a session that a host (`clew host`) runs. In this session, it is a background task:
its output, its questions and its result arrive while the user works on something else, and the
model is told how it ended. The task does not depend on this process: it continues when clew exits,
and the next run of this session finds it by its record.

Described in docs/using/remote.md.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from clew.agent.deps import Granted, Question, Verdict
from clew.agent.tasks.notice import REMOTE
from clew.agent.tasks.registry import (
    TASK_KEEP_BYTES,
    BackgroundTask,
    DetachedWork,
    TaskEnding,
    Tasks,
    TaskUsage,
)
from clew.agent.tools.user_tools import AskUserQuestion, AskUserQuestionInput
from clew.core import wire
from clew.core.json_object import Json, object_of
from clew.core.messages.errors import ClewError, UserError
from clew.core.messages.messages import AssistantMessage
from clew.core.messages.text import replace_unprintable
from clew.fronts.remote.remote import choose_host, end_session, find_hosts, send, start_session
from clew.fronts.remote.service import SessionService, follow, open_service
from clew.permissions.decision import Ask, Finding
from clew.record.transcript.agents import read_remote, read_remote_agents, write_remote
from clew.record.transcript.paths import SessionPlace
from clew.session.session import Session
from clew.system.clock import make_id
from clew.system.process.output import ProcessOutput

AskUser: TypeAlias = Callable[[Question], Awaitable[Verdict]]

LAST_S = 5.0
TITLE_CHARACTERS = 60
GONE = "its process ended on the other machine"
ARGUMENTS = re.compile(
    r'\s*(?:--host\s+(?P<host>\S+)\s+)?(?:"(?P<quoted>[^"]+)"|(?P<folder>\S+))\s+(?P<prompt>.+)',
    re.S,
)


async def begin_task(session: Session, arguments: str, ask: AskUser) -> BackgroundTask:
    """Start a session on a host and follow it. `arguments` is `[--host NAME] FOLDER PROMPT`."""
    found = ARGUMENTS.fullmatch(arguments)
    if found is None:
        raise UserError("Usage: /remote start [--host NAME] FOLDER PROMPT")
    tasks, place = session.parts.tasks, session.parts.agents.place
    tasks.check_room()
    folder, prompt = found["quoted"] or found["folder"], found["prompt"].strip()
    async with open_service("", os.environ) as service:
        host = choose_host(await find_hosts(service), found["host"] or "")
        remote_id = await start_session(service, host, folder, prompt)
        task_id = tasks.new_id(REMOTE, lambda name: read_remote(place, name) is not None)
        record: Json = {
            "taskId": task_id,
            "title": " ".join(prompt.split())[:TITLE_CHARACTERS],
            "sessionId": remote_id,
            "command": prompt,
            "server": service.url,
            "host": str(host.get("title")),
            "status": "running",
        }
    is_kept = session.story.recorder.is_kept
    return RemoteTask(record, tasks, place if is_kept else None, ask).begin()


def resume_tasks(session: Session, ask: AskUser) -> None:
    """Follow the tasks that earlier runs of this session started."""
    place = session.parts.agents.place
    for task_id, record in read_remote_agents(place):
        if record.get("status") == "running" and "server" in record:
            RemoteTask(record | {"taskId": task_id}, session.parts.tasks, place, ask).begin()


class RemoteTask(DetachedWork):
    """A task that follows a remote session until the session has answered the prompt.

    `place` is the location for the task's record; None if the session is not saved.
    """

    def __init__(
        self, record: Json, tasks: Tasks, place: SessionPlace | None, ask: AskUser
    ) -> None:
        self._record = record
        self._tasks = tasks
        self._place = place
        self._ask = ask
        self._output = ProcessOutput(keep_bytes=TASK_KEEP_BYTES)
        self._remote_id = str(record["sessionId"])
        self._is_given_up = False
        # The questions that the user is asked here, by request ID.
        self._asking: dict[str, asyncio.Task[None]] = {}

    def begin(self) -> BackgroundTask:
        self._write("running")
        task = self._tasks.begin(
            self._work,
            task_id=str(self._record["taskId"]),
            kind=REMOTE,
            title=replace_unprintable(str(self._record["title"]), mark="?"),
            output=self._output,
        )
        task.keeping, task.is_kept = self, True
        return task

    def _write(self, status: str) -> None:
        self._record["status"] = status
        if self._place is not None:
            write_remote(self._place, str(self._record["taskId"]), self._record)

    # -- what continues without clew

    async def keep(self, task: BackgroundTask) -> None:
        """Do nothing: the task is on another machine, and always continues."""

    def give_up(self) -> None:
        self._is_given_up = True

    # -- the work

    async def _work(self, task: BackgroundTask) -> TaskEnding:
        try:
            async with open_service(str(self._record["server"]), os.environ) as service:
                try:
                    ending = await self._follow(service, task)
                except asyncio.CancelledError:
                    if self._is_given_up:
                        await self._end(service)
                    raise
                await self._end(service)
        except ClewError as error:
            ending = TaskEnding(status="failed", words=str(error))
        finally:
            self._output.close()
        self._write(ending.status)
        task.is_kept = False
        return ending

    async def _end(self, service: SessionService) -> None:
        """Ask the host to end the session."""
        self._write("stopped")
        try:
            async with asyncio.timeout(LAST_S):
                await end_session(service, self._remote_id)
        except TimeoutError:
            words = (
                "can't reach the server; end the session later with: "
                f"clew remote end {self._remote_id}"
            )
            raise UserError(words) from None

    async def _follow(self, service: SessionService, task: BackgroundTask) -> TaskEnding:
        try:
            async with asyncio.TaskGroup() as group:
                try:
                    async for about in follow(service, self._remote_id, 0):
                        if (ending := self._take(service, task, about, group)) is not None:
                            return ending
                finally:
                    for asking in self._asking.values():
                        asking.cancel()
        except* ClewError as group_error:
            raise group_error.exceptions[0] from None
        raise AssertionError("a session is followed until it ends")

    def _take(
        self, service: SessionService, task: BackgroundTask, about: Json, group: asyncio.TaskGroup
    ) -> TaskEnding | None:
        """Handle an event of the remote session.

        Return the task's end if the event ends the task, otherwise None.
        """
        payload = object_of(about.get("payload"))
        request_id = str(payload.get("request_id"))
        match payload.get("type"), payload.get("subtype"):
            case "assistant", _:
                self._show(task, AssistantMessage(payload))
            case "control_request", _ if about.get("source") == "worker":
                request = object_of(payload.get("request"))
                if request.get("subtype") == "can_use_tool":
                    answering = self._answer(service, task, request_id, request)
                    self._asking[request_id] = group.create_task(answering)
            case "control_cancel_request", _:
                self._withdraw(request_id)
            case "control_response", _:
                response = object_of(payload.get("response"))
                if response.get("subtype") != "error":  # Its viewer can't answer; others can.
                    self._withdraw(str(response.get("request_id")))
            case "system", "worker_shutting_down":
                return TaskEnding(status="failed", words=GONE)
            case "result", _:
                is_error = payload.get("is_error") is True
                text = str(payload.get("result") or payload.get("subtype"))
                if is_error:
                    return TaskEnding(status="failed", words=text)
                return TaskEnding(status="completed", result=text)
        return None

    def _show(self, task: BackgroundTask, message: AssistantMessage) -> None:
        """Add an answer of the model, and the calls in it, to the task's output."""
        used = task.usage or TaskUsage()
        calls = [use.name or "" for use in message.tool_uses]
        lines = [message.text, *(f"● {name}" for name in calls)]
        self._output.feed("".join(f"{line}\n" for line in lines if line).encode())
        task.usage = TaskUsage(
            tokens=used.tokens + message.usage.output_tokens,
            tool_uses=used.tool_uses + len(calls),
            last_tool=calls[-1] if calls else used.last_tool,
        )
        self._tasks.moved(task)

    # -- questions

    async def _answer(
        self, service: SessionService, task: BackgroundTask, request_id: str, request: Json
    ) -> None:
        """Ask the user about a call on the other machine, and send the answer to that machine."""
        verdict = await self._ask(make_question(task, request, str(self._record["host"])))
        given = request.get("input")
        answer: Json
        if isinstance(verdict, Granted):
            answer = {"behavior": "allow", "updatedInput": verdict.input or given}
        else:
            answer = {"behavior": "deny", "message": verdict.words, "interrupt": verdict.stop}
        payload = wire.make_success(request_id, answer) | {"uuid": make_id()}
        await send(service, self._remote_id, payload)

    def _withdraw(self, request_id: str) -> None:
        """Close a question that was answered elsewhere, or is no longer open."""
        asking = self._asking.pop(request_id, None)
        if asking is not None:
            asking.cancel()


def make_question(task: BackgroundTask, request: Json, host: str) -> Question:
    name = str(request.get("tool_name"))
    why = str(
        request.get("decision_reason")
        or request.get("description")
        or "the call runs on another machine"
    )
    given = object_of(request.get("input"))
    return Question(
        kind="choices" if name == AskUserQuestion.name and has_choices(given) else "permission",
        block={"type": "tool_use", "id": request.get("tool_use_id"), "name": name, "input": given},
        title=str(request.get("title") or name),
        decision=Ask(findings=(Finding(subject="", verdict="ask", reason=why),)),
        why=why,
        agent_id=task.id,
        agent=f"{task.title} on {host}",
        is_elsewhere=True,
    )


def has_choices(given: Json) -> bool:
    try:
        msgspec.convert(given, AskUserQuestionInput)
    except msgspec.ValidationError:
        return False
    return True
