"""Runs a trial with the reference client or with clew, and records what is seen from outside.

Both get the same folder, the same host and the same scripted service, and reach no other address.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import claude_agent_sdk

from clew.testing.scenario import from_value
from clew.testing.server import serving
from tests.compat.oracle.trial import HostStep, Json, Trial
from tests.fronts.headless.clew_process import until

Which: TypeAlias = Literal["reference", "clew"]
BUNDLED = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
HOSTED = (
    "-p", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose",
)  # fmt: skip
USAGE = {"input_tokens": 100, "output_tokens": 10}
LONGEST_S = 90
# A word of a scenario.
WORD = re.compile(r"\b[A-Z]{4,}[0-9]?\b")
NOWHERE = "http://127.0.0.1:9"


def command_of(which: Which) -> list[str]:
    if which == "clew":
        return [sys.executable, "-m", "clew"]
    assert BUNDLED.exists(), (
        f"{BUNDLED} not found: the wheel of claude-agent-sdk for this machine contains the "
        "reference client; install it with: rm -rf .venv && make setup"
    )
    return [str(BUNDLED)]


@dataclass(kw_only=True)
class Observed:
    """What a program did: its frames or lines, its exits, the main requests, and its files."""

    which: Which
    work: Path
    is_hosted: bool
    frames: list[Json] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    errors: str = ""
    exits: list[int] = field(default_factory=list)
    requests: list[Json] = field(default_factory=list)
    # The words in everything that the program was given.
    words: set[str] = field(default_factory=set)


class ScriptedModel:
    """The rule of the service: it plays a trial's script and answers small requests itself."""

    def __init__(self, trial: Trial, observed: Observed) -> None:
        self._model = trial.model
        self._observed = observed

    def __call__(self, body: Json) -> Json:
        last = json.dumps(body["messages"][-1:])
        if "detailed summary" in last:
            return {"text": "<summary>SUMMARY</summary>", "usage": USAGE}
        if not body.get("tools"):
            return {"text": '{"title": "A title"}', "usage": USAGE}
        number = len(self._observed.requests)
        self._observed.requests.append(body)
        signal(self._observed, "request")
        if callable(self._model):
            scripted = self._model(number, body)
        else:
            scripted = self._model[min(number, len(self._model) - 1)]
        self._observed.words.update(WORD.findall(json.dumps(scripted)))
        return with_ids(scripted, number)


def signal(observed: Observed, what: str) -> None:
    """Make the next of the files that commands wait for, such as `../result-1`."""
    number = 1
    while (path := observed.work.parent / f"{what}-{number}").exists():
        number += 1
    path.touch()


def with_ids(scripted: Json, number: int) -> Json:
    """Return an answer whose calls have IDs that do not depend on the program's other requests."""
    if "content" not in scripted:
        return scripted
    content = [
        block | {"id": f"toolu_{number}_{index}"}
        if isinstance(block, dict) and "tool" in block
        else block
        for index, block in enumerate(scripted["content"])
    ]
    return scripted | {"content": content, "usage": scripted.get("usage", USAGE)}


def kind_of(frame: Json) -> str:
    """Return a frame's kind, as in `until` of a step."""
    match frame.get("type"):
        case "control_response":
            return f"control_response/{frame['response'].get('request_id')}"
        case "control_request":
            return str(frame["request"]["subtype"])
        case "stream_event":
            return f"event/{frame['event']['type']}"
        case "system":
            return f"system/{frame.get('subtype')}"
        case kind:
            return str(kind)


class Driven:
    """One process, with a host that follows the trial's steps."""

    def __init__(
        self, trial: Trial, observed: Observed, args: tuple[str, ...], environ: dict[str, str]
    ) -> None:
        self._trial, self._observed = trial, observed
        self._process = subprocess.Popen(
            [*command_of(observed.which), *args],
            cwd=observed.work, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, encoding="utf-8",
        )  # fmt: skip

    def run(self, steps: tuple[HostStep, ...]) -> None:
        """Follow the steps and read to the end. A program that hangs is killed."""
        process, observed = self._process, self._observed
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        overdue = threading.Timer(LONGEST_S, process.kill)
        overdue.start()
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
        reader.start()
        try:
            if self._trial.is_hosted:
                for step in steps:
                    self._follow(step)
            self._close()
            for _ in self._read():
                pass
            observed.exits.append(process.wait())
        finally:
            process.kill()
            overdue.cancel()
            process.wait()
            reader.join()
            process.stdout.close()
            process.stderr.close()
        observed.errors += errors[0]

    def _follow(self, step: HostStep) -> None:
        if step.frame is not None:
            self._send(step.frame)
        if step.closes:
            self._close()
        if step.file:
            until((self._observed.work / step.file).exists, within_s=LONGEST_S)
        if step.until and not any(kind_of(frame) == step.until for frame in self._read()):
            self._observed.lines.append(f"ended before {step.until}")

    def _read(self) -> Iterator[Json]:
        """Yield frames, after the host answered those that ask."""
        assert self._process.stdout is not None
        for line in iter(self._process.stdout.readline, ""):
            try:
                frame = json.loads(line)
            except ValueError:
                frame = None
            if not isinstance(frame, dict) or "type" not in frame:
                self._observed.lines.append(line.rstrip("\n"))
                continue
            self._observed.frames.append(frame)
            if frame["type"] == "control_request":
                self._respond(frame)
            if frame["type"] == "result":
                signal(self._observed, "result")
            yield frame

    def _respond(self, frame: Json) -> None:
        asked = frame["request"]
        respond = self._trial.answers.get(asked["subtype"])
        if respond is None:
            response: Json | None = {}
        else:
            response = respond(asked)
        if response is not None:
            held = {
                "subtype": "success",
                "request_id": frame["request_id"],
                "response": response,
            }
            self._send({"type": "control_response", "response": held})

    def _send(self, frame: Json) -> None:
        text = json.dumps(frame)
        self._observed.words.update(WORD.findall(text))
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            self._observed.lines.append("the input was closed")

    def _close(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            self._observed.lines.append("the input was closed")


def observe(which: Which, trial: Trial, folder: Path) -> Observed:
    """Run a trial with one program."""
    home, work = folder / "home", folder / "work"
    config = home / "config"
    for made in (config, work):
        made.mkdir(parents=True, exist_ok=True)
    observed = Observed(which=which, work=work, is_hosted=trial.is_hosted)
    trusted = {
        "hasCompletedOnboarding": True,
        "projects": {str(work): {"hasTrustDialogAccepted": True}},
    }
    (config / ".claude.json").write_text(json.dumps(trusted), "utf-8")
    for name, text in trial.files.items():
        path = config / name[2:] if name.startswith("~/") else work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    observed.words.update(WORD.findall(" ".join([*trial.args, *trial.files.values()])))
    start: Json = {"type": "control_request", "request_id": "start"}
    start["request"] = {"subtype": "initialize", "hooks": None, **trial.initialize}
    steps = (HostStep(frame=start, until="control_response/start"), *trial.steps)
    with serving(ScriptedModel(trial, observed)) as server:
        environ = {
            "PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "HOME": str(home), "TMPDIR": str(folder), "LANG": "C.UTF-8",
            "CLAUDE_CONFIG_DIR": str(config), "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "sk-ant-test-0000", "ANTHROPIC_MODEL": "claude-sonnet-5-5",
            "IS_SANDBOX": "1", "CLAUDE_CODE_ENTRYPOINT": "sdk-py", "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "HTTPS_PROXY": NOWHERE,
            "HTTP_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost", **trial.environ,
        }  # fmt: skip
        for args in (trial.args, *trial.later):
            words = tuple(word.replace("{session}", session_of(observed)) for word in args)
            whole = (*HOSTED, *words) if trial.is_hosted else words
            Driven(trial, observed, whole, environ).run(steps)
    return observed


def session_of(observed: Observed) -> str:
    """Return the session of the last frame."""
    found: list[Any] = [f["session_id"] for f in observed.frames if "session_id" in f]
    return str(found[-1]) if found else ""


def observe_both(trial: Trial, folder: Path) -> tuple[Observed, Observed]:
    """Run a trial with both programs at once."""
    # msgspec prepares a type at its first use, which crashes if two threads do that at once.
    from_value({"scenario": 1, "answers": []})
    with ThreadPoolExecutor(2) as pool:
        reference = pool.submit(observe, "reference", trial, folder / "reference")
        ours = pool.submit(observe, "clew", trial, folder / "clew")
        return reference.result(), ours.result()
