"""A session stays readable whatever any member of any of its lines contains."""

import contextlib
import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.core.catalog.lookup import CATALOG
from clew.core.messages.errors import SessionError
from clew.core.normalize.for_api import for_api
from clew.core.normalize.target import Target
from clew.record.exchange.bring import bring
from clew.record.exchange.export import export_session
from clew.record.transcript import light
from clew.record.transcript.check import check
from clew.record.transcript.load import load
from clew.record.transcript.resume import lost_results, turns_of, write_fork
from clew.session.thread import find_last_todos, restore_past
from tests.record.transcript.build import (
    AT,
    SESSION,
    boundary,
    call,
    entry,
    last_prompt,
    result,
    said,
    summary,
    talk,
    uid,
    user,
)  # fmt: skip

Json = dict[str, Any]
Member = tuple[str | int, ...]
OTHER = "1b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6b"
MISSING = object()
VALUES: list[Any] = [
    MISSING, None, "", "x", 0, -1, 1.5, True, [], ["x"], [None], [[]], [{}], {}, {"type": "x"},
    {"a": None}, 10**30, "2026-01-01T00:00:00.123456+02:00", "not a time", "\ud800",
]  # fmt: skip
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


def every_kind() -> list[Json]:
    """A session with lines of every kind that clew writes or reads."""
    long = "\n".join(f"line {n}" for n in range(50))
    lines: list[Json] = [
        *talk(2),
        user(
            "u3",
            "a2",
            [
                {"type": "text", "text": "see"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
                },
            ],
            promptSource="typed",
            origin={"kind": "human"},
        ),
        said("t1", "u3", {"type": "thinking", "thinking": "hm", "signature": "s"}, of="m"),
        said("t2", "t1", call("x"), of="m"),
        {
            **result("r1", "t2", "x"),
            "toolUseResult": {"stdout": long, "stderr": "", "interrupted": False, "isImage": False},
        },
        entry(
            "attachment",
            "x1",
            "r1",
            attachment={
                "type": "hook_success",
                "hookName": "PreToolUse:Bash",
                "content": "ok",
                "toolUseID": "toolu_x",
            },
            rendered=[{"content": "<system-reminder>hi</system-reminder>"}],
            renderedRole="user",
        ),
        said(
            "t3",
            "x1",
            {
                "type": "tool_use",
                "id": "toolu_e",
                "name": "Edit",
                "input": {"file_path": "/w/a.py", "old_string": "a", "new_string": "b"},
            },
            of="m2",
        ),
        {
            **result("r2", "t3", "e"),
            "toolUseResult": {
                "filePath": "/w/a.py",
                "oldString": "a",
                "newString": "b",
                "originalFile": "a",
                "structuredPatch": [
                    {
                        "oldStart": 1,
                        "oldLines": 1,
                        "newStart": 1,
                        "newLines": 1,
                        "lines": ["-a", "+b"],
                    }
                ],
                "userModified": False,
            },
        },
        said(
            "t4",
            "r2",
            {
                "type": "tool_use",
                "id": "toolu_t",
                "name": "TodoWrite",
                "input": {"todos": [{"content": "c", "status": "pending", "activeForm": "d"}]},
            },
            of="m3",
        ),
        {
            **result("r3", "t4", "t"),
            "toolUseResult": {
                "oldTodos": [],
                "newTodos": [{"content": "c", "status": "pending", "activeForm": "d"}],
            },
        },
        said("a3", "r3"),
        entry("system", "s1", "a3", subtype="turn_duration", durationMs=5, isMeta=True),
        entry(
            "system",
            "s2",
            "s1",
            subtype="local_command",
            content="<local-command-stdout>x</local-command-stdout>",
            level="info",
        ),
        entry(
            "system",
            "s3",
            "s2",
            subtype="api_error",
            error={"message": "m", "status": 500, "connection": {"code": "x"}},
            retryInMs=5,
            retryAttempt=1,
            maxRetries=3,
        ),
        {
            **user("n1", "s3", "<task-notification>x</task-notification>"),
            "origin": {"kind": "task-notification", "producer": "p", "runId": "r"},
        },
        said("a4", "n1"),
        boundary(
            "b1",
            "a4",
            preservedSegment={
                "headUuid": uid("n1"),
                "tailUuid": uid("a4"),
                "anchorUuid": uid("s9"),
            },
            covers={
                "entries": 3,
                "filesChanged": ["/w/a"],
                "filesRead": [],
                "openTodos": [],
                "leftOut": [],
            },
            preTokens=5,
            postTokens=3,
        ),
        summary("s9", "b1"),
        user("u5", "s9", "more", promptSource="typed"),
        said("a5", "u5"),
        entry(
            "system",
            "mc",
            "a5",
            subtype="microcompact_boundary",
            microcompactMetadata={
                "compactedToolIds": ["toolu_x"],
                "references": {"toolu_x": "gone"},
                "tokensSaved": 4,
            },
        ),
        user("u6", "mc", "again", promptSource="typed"),
        said("a6", "u6"),
        last_prompt("a6"),
        {"type": "custom-title", "customTitle": "T", "sessionId": SESSION},
        {"type": "ai-title", "aiTitle": "T", "sessionId": SESSION},
        {"type": "tag", "tag": "T", "sessionId": SESSION},
        {"type": "summary", "summary": "S", "leafUuid": uid("a5")},
        {
            "type": "cost-state",
            "totalCostUSD": 1.5,
            "totalAPIDuration": 3,
            "modelUsage": {
                "claude-opus-5-5": {
                    "inputTokens": 5,
                    "outputTokens": 5,
                    "cacheReadInputTokens": 0,
                    "cacheCreationInputTokens": 0,
                    "costUSD": 1.0,
                }
            },
            "sessionId": SESSION,
        },
        {
            "type": "file-history-snapshot",
            "messageId": uid("u5"),
            "snapshot": {
                "messageId": uid("u5"),
                "trackedFileBackups": {
                    "/w/a.py": {"backupFileName": "f@v1", "version": 1, "backupTime": AT}
                },
                "timestamp": AT,
            },
            "isSnapshotUpdate": False,
        },
        {
            "type": "file-history-delta",
            "messageId": uid("a5"),
            "snapshotMessageId": uid("u5"),
            "trackingPath": "/w/a.py",
            "backup": {"backupFileName": None, "version": 1, "backupTime": AT},
        },
        {
            "type": "queue-operation",
            "operation": "enqueue",
            "content": "q",
            "timestamp": AT,
            "sessionId": SESSION,
        },
        {"type": "mode", "mode": "normal", "sessionId": SESSION},
        {"type": "permission-mode", "permissionMode": "plan", "sessionId": SESSION},
        {"type": "agent-name", "agentName": "n", "sessionId": SESSION},
        {"type": "agent-setting", "agentSetting": "x", "sessionId": SESSION},
        {
            "type": "worktree-state",
            "worktreeSession": {"originalCwd": "/w", "worktreePath": "/w/x", "worktreeName": "x"},
            "sessionId": SESSION,
        },
        {
            "type": "content-replacement",
            "sessionId": SESSION,
            "replacements": [{"kind": "tool-result", "toolUseId": "toolu_x", "replacement": "r"}],
        },
        {
            "type": "request-repairs",
            "repairs": [{"rule": "x", "uuid": uid("a1"), "detail": ""}],
            "sessionId": SESSION,
        },
        {
            "type": "context-edits",
            "edits": [{"kind": "hide", "uuids": [uid("a1")], "words": ""}],
            "sessionId": SESSION,
        },
        {"type": "prompt-hashes", "system": "x", "tools": "y", "sessionId": SESSION},
        {"type": "clew-session", "sessionId": SESSION},
        {
            "type": "request-cost",
            "purpose": "warming",
            "usage": {"input_tokens": 4, "output_tokens": 1},
            "model": "claude-opus-5-5",
            "timestamp": AT,
            "sessionId": SESSION,
            "requestId": "r",
        },
        {
            "type": "tool-started",
            "sessionId": SESSION,
            "owed": [said("zz", "a6", call("q"), of="mz")],
        },
        {"type": "tombstone", "messageUuid": uid("a2"), "sessionId": SESSION},
    ]
    return lines


def members(value: Any, at: Member = ()) -> Iterator[Member]:
    """The paths of all members of a line."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        yield (*at, key)
        if isinstance(inner, dict | list):
            yield from members(inner, (*at, key))


def replaced(line: Any, path: Member, value: Any) -> Any:
    line = inner = copy.deepcopy(line)
    for key in path[:-1]:
        inner = inner[key]
    if value is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return line


def use(path: Path, home: Path) -> None:
    """Read a session in every way there is. Only a SessionError may refuse it."""
    loaded = load(path)
    for_api(loaded.messages, Target())
    lost_results(loaded)
    turns_of(loaded.messages)
    list(write_fork(loaded, OTHER))
    find_last_todos(loaded.messages)
    restore_past(loaded, CATALOG)
    whole = load(path, reads_all=True)
    check(whole.chain, whole.messages, whole.line_notes, session_id=SESSION)
    list(whole.report())
    whole.gaps()
    light.read_outline(path)
    for form in ("html", "markdown", "json", "jsonl", "text"):
        export_session(path, form, None, subagents=True)
    with contextlib.suppress(SessionError):
        bring(home, path, "/tmp", now=lambda: AT, has_new_id=True)


def run_changes(folder: Path, changes: list[tuple[int, Member, Any]]) -> None:
    kinds = every_kind()
    lines = [json.dumps(line, separators=(",", ":")).encode() for line in kinds]
    path = folder / "home" / "projects" / "-w" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    for number, member, value in changes:
        changed = list(lines)
        changed[number] = json.dumps(
            replaced(kinds[number], member, value) if member else value, separators=(",", ":")
        ).encode()
        path.write_bytes(b"\n".join(changed) + b"\n")
        try:
            use(path, folder / "other")
        except Exception as error:
            error.add_note(f"line {number} ({kinds[number]['type']}), {member}: {value!r}")
            raise


def all_changes() -> list[tuple[int, Member, Any]]:
    kinds = every_kind()
    inside = [
        (number, member, value)
        for number, line in enumerate(kinds)
        for member in members(line)
        for value in VALUES
    ]
    return inside + [(number, (), value) for number in range(len(kinds)) for value in VALUES[1:]]


@pytest.mark.no_cover
def test_odd_values_in_a_few_places(tmp_path: Path) -> None:
    changes = random.Random(11).sample(all_changes(), 40)
    kinds = [line["type"] for line in every_kind()]
    run_changes(tmp_path, [*changes, (kinds.index("tool-started"), ("owed", 0, "uuid"), "")])


@pytest.mark.laws
@pytest.mark.parametrize("part", range(4))
def test_odd_values_in_every_place(tmp_path: Path, part: int) -> None:
    run_changes(tmp_path, all_changes()[part::4])
