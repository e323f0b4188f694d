"""The results of tools for programs, checked by TypeScript against the SDK's types."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.compat.oracle.programs import observe
from tests.compat.oracle.trial import ASK, BEGIN, DONE, Json, Trial, allow, answer, call
from tests.compat.programs import PROGRAMS

(PACKAGE,) = PROGRAMS["@anthropic-ai/claude-agent-sdk"].packages
TYPESCRIPT = "typescript@5.9.3"
NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "id": "c1", "source": ["x = 1"], "metadata": {}, "outputs": []}
    ],
    "metadata": {"language_info": {"name": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
QUESTION = {
    "question": "Which?",
    "header": "Choice",
    "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}],
    "multiSelect": False,
}
TODO = {"content": "c", "status": "pending", "activeForm": "a"}


# The published type of the result, and the call.
CALLS: list[tuple[str, Json]] = [
    ("FileReadOutput", call("Read", file_path="a.txt")),
    ("FileReadOutput", call("Read", file_path="nb.ipynb")),
    ("FileEditOutput", call("Edit", file_path="a.txt", old_string="one", new_string="two")),
    ("FileWriteOutput", call("Write", file_path="new.txt", content="x\n")),
    ("FileWriteOutput", call("Write", file_path="new.txt", content="y\n")),
    (
        "NotebookEditOutput",
        call("NotebookEdit", notebook_path="nb.ipynb", cell_id="c1", new_source="x = 2"),
    ),
    ("BashOutput", call("Bash", command="echo ok")),
    ("BashOutput", call("Bash", command="sleep 60", run_in_background=True)),
    ("TaskStopOutput", call("TaskStop", task_id="s1")),
    ("MonitorOutput", call("Monitor", command="sleep 60", description="m", persistent=True)),
    ("TaskStopOutput", call("TaskStop", task_id="m2")),
    ("GlobOutput", call("Glob", pattern="*.txt")),
    ("GrepOutput", call("Grep", pattern="t")),
    ("GrepOutput", call("Grep", pattern="t", output_mode="content")),
    ("GrepOutput", call("Grep", pattern="t", output_mode="count")),
    ("TodoWriteOutput", call("TodoWrite", todos=[TODO])),
    ("TaskCreateOutput", call("TaskCreate", subject="s", description="d")),
    ("TaskGetOutput", call("TaskGet", taskId="1")),
    ("TaskListOutput", call("TaskList")),
    ("TaskUpdateOutput", call("TaskUpdate", taskId="1", status="in_progress")),
    ("AskUserQuestionOutput", call("AskUserQuestion", questions=[QUESTION])),
    ("AgentOutput", call("Agent", description="d", prompt="TASK", subagent_type="worker")),
    (
        "AgentOutput",
        call("Agent", description="d", prompt="TASK", subagent_type="worker", run_in_background=True),
    ),
    ("CronCreateOutput", call("CronCreate", cron="0 0 * * *", prompt="p", recurring=True)),
    ("CronListOutput", call("CronList")),
    ("CronDeleteOutput", call("CronDelete", id="s3")),
    ("EnterPlanModeOutput", call("EnterPlanMode")),
    ("ExitPlanModeOutput", call("ExitPlanMode", plan="the plan")),
]  # fmt: skip


class Caller:
    """A model that makes the calls one by one, and answers for the subagents."""

    def __init__(self) -> None:
        self._made = 0

    def __call__(self, _: int, body: Json) -> Json:
        if "WORKER" in json.dumps(body.get("system", "")):
            return answer("FOUND")
        if self._made == len(CALLS):
            return DONE
        self._made += 1
        return answer(CALLS[self._made - 1][1])


# A published type, with any further members.
LOOSE = (
    "type Loose<T> = T extends (infer U)[] ? Loose<U>[] : T extends object "
    "? { [K in keyof T]: Loose<T[K]> } & { [name: string]: any } : T;"
)


def permit(asked: Json) -> Json:
    given = asked["input"]
    if asked["tool_name"] == "AskUserQuestion":
        given = given | {"answers": {"Which?": "A"}}
    return allow({"input": given})


def results_of(transcript: Path) -> list[Any]:
    """Return the results for programs, in the order of the calls."""
    calls: list[str] = []
    results: dict[str, Any] = {}
    for line in transcript.read_text("utf-8").splitlines():
        entry = json.loads(line)
        content = entry["message"]["content"] if "message" in entry else ""
        for block in content if isinstance(content, list) else []:
            if block["type"] == "tool_use":
                calls.append(block["id"])
            elif block["type"] == "tool_result":
                results[block["tool_use_id"]] = entry.get("toolUseResult", block["content"])
    return [results[name] for name in calls]


@pytest.mark.e2e
def test_results_of_tools_have_the_published_types(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    assert npm is not None, "npm is needed to get the types of the TypeScript SDK"
    types = tmp_path / "types"
    words = [npm, "install", "--silent", "--no-audit", "--no-fund", "--omit=optional"]
    words += ["--ignore-scripts", "--prefix", str(types), PACKAGE, TYPESCRIPT]
    subprocess.run(words, check=True, timeout=300)
    worker = {"description": "w", "prompt": "WORKER", "tools": ["Read"]}
    trial = Trial(
        args=ASK,
        files={"a.txt": "one\n", "nb.ipynb": json.dumps(NOTEBOOK)},
        initialize={"agents": {"worker": worker}},
        steps=(BEGIN,),
        answers={"can_use_tool": permit},
        model=Caller(),
    )
    observe("clew", trial, tmp_path / "run")
    (transcript,) = (tmp_path / "run/home/config/projects").glob("*/*.jsonl")
    results = results_of(transcript)
    package = types / "node_modules" / PACKAGE.rpartition("@")[0]
    lines = [f'import type * as out from "{package}/sdk-tools";', LOOSE]
    for (kind, asked), result in zip(CALLS, results, strict=True):
        typed = f"const r{len(lines)}: Loose<out.{kind}>"
        lines.append(f"{typed} = {json.dumps(result)};  // {asked['tool']}")
    (tmp_path / "results.ts").write_text("\n".join(lines) + "\n", "utf-8")
    tsc = [str(types / "node_modules/.bin/tsc"), "--noEmit", "--strict", "--skipLibCheck"]
    checked = subprocess.run(
        [*tsc, str(tmp_path / "results.ts")],
        capture_output=True, encoding="utf-8", check=False, cwd=tmp_path,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
