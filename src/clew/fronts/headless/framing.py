"""Convert engine events to frames: each entry once, in the order that hosts rely on.

This module keeps track of which entries have been sent. It reads events and entries, never the
transcript file, and takes times only from entries.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from clew.agent.events import (
    BlockSaid,
    Compacted,
    Compacting,
    Doubted,
    EngineEvent,
    FromAgent,
    HookFinished,
    HookStarted,
    NotCompacted,
    Noticed,
    NotSaved,
    Recorded,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from clew.agent.options import Options
from clew.agent.tasks.notice import read_summary
from clew.agent.tasks.registry import BackgroundTask, Moment
from clew.commands.slash.table import collect_commands
from clew.core import wire
from clew.core.json_object import Json
from clew.fronts.headless.result import Tally
from clew.fronts.render.grouping import summarize_calls
from clew.parts.background_tasks import describe_row
from clew.parts.mcp.part import Connected
from clew.providers.answer_events import Asking, FellBack, Retrying, Streamed
from clew.providers.failure_kinds import category_of
from clew.session.session import Session

# Task frames for hosts: started, progress, ended. Values in, frames out.


Frame: TypeAlias = Callable[..., Json]

# A stopped task is reported as killed in the frames by which hosts track its state.
STATES = {"completed": "completed", "failed": "failed", "stopped": "killed"}


def frame_event(
    task: BackgroundTask, moment: Moment, running: Iterable[BackgroundTask], system: Frame
) -> list[Json]:
    match moment:
        case "began":
            about = {**named(task), "description": task.title, "task_type": task.wire_kind}
            began = system("task_started", is_backgrounded=task.is_background, **about)
            return [*listed(running, system), began] if task.is_background else [began]
        case "moved":
            if task.usage is None:
                return []
            tool = {"last_tool_name": task.usage.last_tool} if task.usage.last_tool else {}
            about = {**named(task), "description": task.title, "usage": usage(task), **tool}
            return [system("task_progress", **about)]
        case "left":
            return listed(running, system)
        case "ended":
            return [*ended(task, system), *(listed(running, system) if task.is_background else ())]


def ended(task: BackgroundTask, system: Frame) -> list[Json]:
    patch = {"status": STATES.get(task.status, task.status), "end_time": round(time.time() * 1000)}
    used = {} if task.usage is None else {"usage": usage(task)}
    return [
        system("task_updated", task_id=task.id, run_id=task.id, patch=patch),
        system(
            "task_notification",
            **named(task),
            status=task.status,
            output_file="" if task.file is None else str(task.file),
            summary=summary_of(task),
            **used,
        ),
    ]


def listed(running: Iterable[BackgroundTask], system: Frame) -> list[Json]:
    """Return a frame with the complete list of background tasks."""
    return [
        system(
            "background_tasks_changed", tasks=[describe_row(t) for t in running if t.is_background]
        )
    ]


def named(task: BackgroundTask) -> Json:
    return {"task_id": task.id, "run_id": task.id} | (
        {"tool_use_id": task.tool_use_id} if task.tool_use_id else {}
    )


def usage(task: BackgroundTask) -> Json:
    used = task.usage
    return {
        "total_tokens": used.tokens if used else 0,
        "tool_uses": used.tool_uses if used else 0,
        "duration_ms": task.duration_ms,
    }


def summary_of(task: BackgroundTask) -> str:
    ending = task.ending
    words = "" if ending is None else ending.words
    summary = read_summary(task.kind, task.title, task.status, words)
    return f"{summary}; {task.cut}" if task.cut else summary


# Frames of subagents, linked to the call that started each.


class Delegated:
    """Makes the frames of subagents. With `tells_text`, these include the subagents' text."""

    def __init__(self, session_id: str, *, tells_text: bool) -> None:
        self._session_id = session_id
        self._tells_text = tells_text
        self._told: set[str] = set()

    def framed(self, agent_event: FromAgent) -> list[Json]:
        match agent_event.event:
            case BlockSaid():
                new_frames = self._entry(agent_event.event.entry, agent_event.tool_use_id)
            case ToolFinished():
                new_frames = self._entry(agent_event.event.entry, agent_event.tool_use_id)
            case Recorded():
                new_frames = self._entries(agent_event.event.entries, agent_event.tool_use_id)
            case _:
                return []
        return [
            wire.of_agent(
                frame,
                agent_id=agent_event.agent_id,
                kind=agent_event.kind,
                description=agent_event.description,
            )
            for frame in new_frames
        ]

    def _entries(self, entries: Iterable[Json], parent: str) -> list[Json]:
        return [frame for entry in entries for frame in self._entry(entry, parent)]

    def _entry(self, entry: Json, parent: str) -> list[Json]:
        if entry["uuid"] in self._told:
            return []
        frame = self._frame(entry, parent)
        if frame is None:
            return []
        self._told.add(entry["uuid"])
        return [frame]

    def _frame(self, entry: Json, parent: str) -> Json | None:
        kinds = block_types(entry)
        if entry.get("type") == "assistant" and (self._tells_text or "tool_use" in kinds):
            return wire.assistant(entry, session_id=self._session_id, parent=parent)
        if entry.get("type") == "user" and "tool_result" in kinds:
            return wire.user(entry, session_id=self._session_id, parent=parent)
        return None


def block_types(entry: Json) -> set[str]:
    content = entry.get("message", {}).get("content")
    blocks = content if isinstance(content, list) else []
    return {str(block.get("type")) for block in blocks if isinstance(block, dict)}


# The least time between two frames about the progress of a call.
PROGRESS_S = 1.0


class CallProgress:
    """Makes frames about running calls: those of the session and of its subagents."""

    def __init__(self, session_id: str, new_id: Callable[[], str]) -> None:
        self._session_id = session_id
        self._new_id = new_id
        # For each running call: the tool, its start, and the time of its last progress frame.
        self._calls: dict[str, tuple[str, float, float]] = {}

    def begin(self, event: ToolStarted) -> None:
        self._calls[event.block["id"]] = (event.block["name"], time.monotonic(), 0.0)

    def end(self, event: ToolFinished) -> None:
        self._calls.pop(event.block["id"], None)

    def framed(self, event: ToolProgressed, parent: str | None) -> list[Json]:
        """Return a list with a progress frame; empty if the last one was sent a moment ago."""
        now_s = time.monotonic()
        tool, begun_s, told_s = self._calls.get(event.tool_use_id, ("", 0.0, now_s))
        if now_s - told_s < PROGRESS_S:
            return []
        self._calls[event.tool_use_id] = (tool, begun_s, now_s)
        return [
            wire.tool_progress(
                event.tool_use_id,
                tool,
                round(now_s - begun_s, 1),
                event.data.data,
                parent=parent,
                session_id=self._session_id,
                uuid=self._new_id(),
            )
        ]


class TurnFrames:
    """Converts the events of successive turns to frames.

    `wanted` determines how much of the stream is sent. `answers` are the prompts that the turn
    answers.
    """

    def __init__(
        self,
        session_id: str,
        new_id: Callable[[], str],
        wanted: Options,
        *,
        summarizes_calls: bool = False,
        describe_input: Callable[[Json], Json] = dict,
    ) -> None:
        self._session_id = session_id
        self._new_id = new_id
        self._wanted = wanted
        self._framed: set[str] = set()
        self._model = ""
        self._open_block: int | None = None
        self._is_open = False
        self.answers: list[str] = []
        # The ID of the last answered request.
        self.request_id: str | None = None
        self._describe_input = describe_input
        self.tally = self._new_tally()
        self._agents = Delegated(session_id, tells_text=wanted.agent_text)
        self._progress = CallProgress(session_id, new_id)
        # Finished calls that no summary includes yet; None if the host wants no summaries.
        self._calls: list[tuple[Json, bool]] | None = [] if summarizes_calls else None

    def _new_tally(self) -> Tally:
        return Tally(session_id=self._session_id, describe_input=self._describe_input)

    def begin(self) -> None:
        """Begin a turn and reset its counters."""
        self.answers = []
        self.tally = self._new_tally()
        self._framed.clear()

    def system(self, subtype: str, **fields: Any) -> Json:
        return wire.system(subtype, session_id=self._session_id, uuid=self._new_id(), **fields)

    def framed(self, event: EngineEvent) -> list[Json]:
        """Return the frames for an engine event."""
        match event:
            case Recorded():
                return self.entries(event.entries)
            case BlockSaid():
                return self._assistant(event.entry)
            case ToolFinished():
                return self._finished(event)
            case Streamed():
                return self._streamed(event.event) if self._wanted.partial else []
            case Asking():
                self._model = event.model
                status = [self.system("status", status="requesting")]
                return [*self.sum_up_calls(), *(status if self._wanted.partial else ())]
            case FromAgent(event=NotSaved() | Noticed() | ToolStarted()):
                return self.framed(event.event)
            case ToolStarted():
                self._progress.begin(event)
                return []
            case ToolProgressed() if self._wanted.partial:
                return self._progress.framed(event, None)
            case FromAgent(event=ToolProgressed() as step) if self._wanted.partial:
                return self._progress.framed(step, event.tool_use_id)
            case FromAgent():
                if isinstance(event.event, ToolFinished):
                    self._progress.end(event.event)
                return self._agents.framed(event)
            case HookStarted() | HookFinished():
                return [self._hook(event)] if self._wanted.hook_events else []
            case Retrying():
                return [self._retry(event)]
            case FellBack():
                return [self._fallback(event)]
            case NotSaved() | Noticed():
                return [self._said(words, "warning") for words in event.messages]
            case Compacting():
                return [self.system("status", status="compacting")]
            case Compacted():
                return self._compacted(event)
            case NotCompacted():
                failed = {"compact_result": "failed", "compact_error": event.message}
                return [self.system("status", status=None, **failed)]
            case Doubted(is_held=False):
                return [self._said("Request sent, but the API may reject it", "warning")]
            case _:
                return []

    def _compacted(self, event: Compacted) -> list[Json]:
        """Return the frame that reports a compaction, and the frames of its summary."""
        done = self.system("status", status=None, compact_result="success")
        frames_of = [done, wire.compact_boundary(event.boundary, session_id=self._session_id)]
        for entry in event.entries:
            if entry.get("isCompactSummary"):
                frames_of += self._once(entry, wire.user(entry, session_id=self._session_id))
        return frames_of

    def entries(self, entries: Iterable[Json]) -> list[Json]:
        """Return frames for the entries that have not been framed yet."""
        return [frame for entry in entries for frame in self._entry(entry)]

    def _entry(self, entry: Json) -> list[Json]:
        self.tally.entry(entry)
        match entry.get("type"):
            case "assistant":
                return self._assistant(entry)
            case "user" if self._is_told(entry):
                return self._once(entry, wire.user(entry, session_id=self._session_id))
            case "user":
                return self._prompt(entry)
            case "system" if "microcompactMetadata" in entry:
                frame = wire.microcompact_boundary(entry, session_id=self._session_id)
                return self._once(entry, frame)
            case _:
                return []

    def _prompt(self, entry: Json) -> list[Json]:
        """Record that this turn answers a prompt of the host.

        Return a frame that echoes the prompt if the host asked for echoes.
        """
        if entry["uuid"] not in self.answers:
            self.answers.append(entry["uuid"])
        frame = wire.user(entry, session_id=self._session_id, is_replay=True)
        return self._once(entry, frame) if self._wanted.replays else []

    def _is_told(self, entry: Json) -> bool:
        """Return whether to send a user entry, because it is not one of the host's own prompts."""
        content = entry["message"]["content"]
        first = content[0] if isinstance(content, list) and content else {}
        return (
            "toolUseResult" in entry
            or entry.get("isMeta") is True
            or entry.get("isSynthetic") is True
            or (entry.get("origin") or {}).get("kind") == "task-notification"
            or (isinstance(first, dict) and first.get("type") == "tool_result")
        )

    def _assistant(self, entry: Json) -> list[Json]:
        self.request_id = entry.get("requestId")
        frame = wire.assistant(entry, session_id=self._session_id, answers=self.answers)
        return self._once(entry, frame)

    def _once(self, entry: Json, frame: Json) -> list[Json]:
        if entry["uuid"] in self._framed:
            return []
        self._framed.add(entry["uuid"])
        return [frame]

    def _finished(self, event: ToolFinished) -> list[Json]:
        self.tally.finished(event)
        self._progress.end(event)
        if self._calls is not None:
            self._calls.append((event.block, event.is_error))
        new_frames = self._once(event.entry, wire.user(event.entry, session_id=self._session_id))
        if event.entry.get("toolDenialKind") != "permission-rule":
            return new_frames
        denied = self.system(
            "permission_denied",
            tool_name=event.block["name"],
            tool_use_id=event.block["id"],
            message=event.display,
            decision_reason_type="rule",
        )
        return [denied, *new_frames]

    def sum_up_calls(self) -> list[Json]:
        """Summarize the calls that finished since the last summary.

        Return a list of one frame, or an empty list if no call finished.
        """
        if not self._calls:
            return []
        calls, self._calls = self._calls, []
        ids = [str(block["id"]) for block, _ in calls]
        return [
            wire.tool_use_summary(
                summarize_calls(calls), ids, session_id=self._session_id, uuid=self._new_id()
            )
        ]

    # -- the stream

    def _streamed(self, event: Json) -> list[Json]:
        match event.get("type"):
            case "message_start":
                self._is_open = True
            case "content_block_start":
                self._open_block = event.get("index")
            case "content_block_stop":
                self._open_block = None
            case "message_stop":
                self._is_open = False
        return [self._event(event)]

    def _event(self, event: Json) -> Json:
        return wire.stream_event(
            event, session_id=self._session_id, uuid=self._new_id(), answers=self.answers
        )

    def close_stream(self) -> list[Json]:
        """Close the block and message that an interruption left open; return the events."""
        closing: list[Json] = []
        if self._is_open and self._open_block is not None:
            closing.append(self._event({"type": "content_block_stop", "index": self._open_block}))
        if self._is_open:
            ended = {"stop_reason": None, "stop_sequence": None}
            closing.append(
                self._event(
                    {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 0}}
                )
            )
            closing.append(self._event({"type": "message_stop"}))
        self._is_open, self._open_block = False, None
        return closing

    # -- other events

    def _retry(self, event: Retrying) -> Json:
        return self.system(
            "api_retry",
            attempt=event.attempt,
            max_retries=None if event.max_attempts is None else event.max_attempts - 1,
            retry_delay_ms=round(event.delay_s * 1000),
            error_status=event.failure.status,
            error=category_of(event.failure),
            content=event.failure.message,
        )

    def _hook(self, event: HookStarted | HookFinished) -> Json:
        about = {"hook_id": event.hook_id, "hook_name": event.name, "hook_event": event.event}
        if isinstance(event, HookStarted):
            return self.system("hook_started", **about)
        return self.system(
            "hook_response",
            **about,
            output=event.ran.stdout + event.ran.stderr,
            stdout=event.ran.stdout,
            stderr=event.ran.stderr,
            exit_code=event.ran.exit_code,
            outcome=event.outcome,
        )

    def _fallback(self, event: FellBack) -> Json:
        return self.system(
            "model_fallback",
            trigger=category_of(event.failure),
            original_model=self._model,
            fallback_model=event.model,
            content=f"{event.failure.message}; switching to {event.model}",
        )

    def _said(self, words: str, level: str) -> Json:
        return self.system("informational", content=words, level=level)

    def notice(self, words: str) -> Json:
        return self._said(words, "notice")


def list_servers(mcp: Connected) -> list[Json]:
    """Return the name and state of each server, as reported at the start of every turn."""
    from clew.parts.mcp.protocol import name_state

    rows = [
        {"name": s.name, "status": name_state(s.state), "source": s.config.scope}
        for s in mcp.clients()
    ]
    return rows + [
        {"name": e.name, "status": "disabled", "source": e.scope} for e in mcp.found.held
    ]


def list_commands(session: Session) -> list[Json]:
    """Return the slash commands."""
    origins = {skill.name: skill.origin for skill in session.parts.skills.all()}
    return [
        {
            "name": command.name,
            "description": command.description,
            "argumentHint": command.hint,
            "aliases": list(command.aliases),
            "builtin": command.name not in origins or origins[command.name] == "bundled",
        }
        for command in collect_commands(session)
    ]


def list_agents(session: Session) -> list[Json]:
    return [
        {"name": spec.name, "description": spec.description, "model": spec.model}
        for spec in session.parts.agents.catalog
    ]
