"""Providers, stores and parts of installed packages: found by entry points, used by the real programs."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from clew.core.json_object import Json
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.headless.test_hooks import trust, write

PACKAGE = """
import asyncio, clew, json, pathlib

async def echo(request):
    yield f"{request.model} got {request.messages[-1]['content'][0]['text']}"

class Files:
    def __init__(self, url):
        self.folder = pathlib.Path(url.partition("://")[2])

    async def append(self, key, entries):
        with self.folder.joinpath(key["session_id"]).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\\n" for entry in entries)

    async def load(self, key):
        path = self.folder / key["session_id"]
        return list(map(json.loads, path.read_text("utf-8").splitlines())) if path.exists() else None

class Blocking(Files):
    def append(self, key, entries):
        pass

@clew.tool
async def weigh(item: str) -> str:
    "Weigh an item."
    if item == "air":
        raise LookupError("air weighs nothing")
    return f"{item}: 3 kg"

class Audit(clew.PackagePart):
    events = ("SessionStart", "PreToolUse")

    def __init__(self, options):
        if "file" not in options:
            raise ValueError("file is missing")
        self.file, self.refuses = pathlib.Path(options["file"]), options.get("refuses")

    def write(self, *words):
        with self.file.open("a", encoding="utf-8") as file:
            print(*words, file=file)

    async def open(self, session):
        self.write("open", session.model, len(session.session_id), pathlib.Path(session.cwd).name)

    async def aclose(self):
        self.write("closed")
        raise RuntimeError("not quite")

    def functions(self):
        return [weigh]

    def commands(self):
        return {"audit": self.audit}

    async def audit(self, arguments):
        "Show what was written."
        if arguments == "loudly":
            raise ValueError("not loudly")
        return self.file.read_text("utf-8")

    def notices(self):
        return ["everything is written down"]

    async def on_event(self, event):
        name = event["hook_event_name"]
        self.write(name, event.get("tool_name", ""))
        if name == "PreToolUse" and self.refuses == "all":
            return {"decision": "block", "reason": "nothing today"}
        if name == "PreToolUse" and self.refuses == "broken":
            raise RuntimeError("no scales")
        if name == "PreToolUse" and self.refuses is not None:
            return self.refuses["answer"]
        return {}

class Late(clew.PackagePart):
    async def open(self, session):
        raise OSError("too late")

class Wrong(clew.PackagePart):
    def __init__(self, options):
        self.offers = options

    def functions(self):
        return self.offers.get("functions", [])

    def commands(self):
        return self.offers.get("commands", {"plain": lambda arguments: "plain"})

    def notices(self):
        return self.offers.get("notices", [])

class Blocks(clew.PackagePart):
    def on_event(self, event):
        return {}

class Odd(clew.PackagePart):
    events = ("Lunch",)
"""
POINTS = """[clew.providers]
echo = echo_package:echo
broken = echo_package:missing
[clew.stores]
files = echo_package:Files
blocking = echo_package:Blocking
[clew.parts]
audit = echo_package:Audit
late = echo_package:Late
odd = echo_package:Odd
blocks = echo_package:Blocks
wrong = echo_package:Wrong
stranger = builtins:dict
"""
PROGRAM = """
import clew, sys
folder, url, resume = sys.argv[1:]
options = clew.ClewOptions(
    cwd=folder, home=f"{folder}/{resume or 'first'}", session_store=url, model="echo:small",
    resume=resume or None, setting_sources=[],
)
result = clew.run_sync("Hello", options)
print(result.session_id, result.text)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with an installed package."""
    about = tmp_path / "packages" / "echo_package-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: echo-package\nVersion: 1\n", "utf-8"
    )
    (about / "entry_points.txt").write_text(POINTS, "utf-8")
    (about.parent / "echo_package.py").write_text(PACKAGE, "utf-8")
    return about.parent


def test_a_model_may_belong_to_the_provider_of_a_package(tmp_path: Path, package: Path) -> None:
    def ask(model: str) -> subprocess.CompletedProcess[str]:
        return clew(
            tmp_path,
            "http://127.0.0.1:9",
            "-p",
            "hi",
            "--model",
            model,
            environ={"PYTHONPATH": str(package)},
        )

    assert ask("echo:small").stdout == "echo:small got hi\n"
    failed = ask("broken:small")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "clew.providers: broken (echo_package:missing) can't be loaded: " in failed.stderr


def test_a_url_may_name_the_store_of_a_package(tmp_path: Path, package: Path) -> None:
    def run(url: str, resume: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path), url, resume],
            env={"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    (tmp_path / "store").mkdir()
    url = f"files://{tmp_path}/store"
    first = run(url)
    session, _, text = first.stdout.partition(" ")
    assert text == "echo:small got Hello\n", first.stderr
    # Another machine: only the store has the session.
    again = run(url, session)
    assert again.stdout.startswith(f"{session} echo:small got"), again.stderr
    failed = run("blocking://x")
    assert "session_store: append: expected an async function" in failed.stderr
    failed = run("other://x")
    assert "session_store: no installed package offers 'other' stores" in failed.stderr


def run_with_parts(
    folder: Path, package: Path, parts: object, *arguments: str, answers: Sequence[Json] = ()
) -> subprocess.CompletedProcess[str]:
    settings = json.dumps({"parts": parts})
    with serving({"scenario": 1, "answers": [*answers, {"text": "Done."}]}) as server:
        return clew(
            folder,
            server.url,
            *("-p", "Weigh it.", "--settings", settings, *arguments),
            environ={"PYTHONPATH": str(package)},
        )


def weigh(item: str) -> Json:
    return {"content": [{"tool": "mcp__audit__weigh", "input": {"item": item}}]}


def results_of(ran: subprocess.CompletedProcess[str]) -> list[Json]:
    frames = [json.loads(line) for line in ran.stdout.splitlines()]
    return [
        block
        for frame in frames
        if frame["type"] == "user"
        for block in frame["message"]["content"]
        if block["type"] == "tool_result"
    ]


FRAMES = ("--output-format", "stream-json", "--verbose")


def test_a_part_of_a_package_adds_a_tool_and_sees_events(tmp_path: Path, package: Path) -> None:
    log = tmp_path / "log"
    ran = run_with_parts(
        tmp_path,
        package,
        {"audit": {"file": str(log)}, "late": False},
        *FRAMES,
        *("--allowedTools", "mcp__audit"),
        answers=[weigh("lead"), weigh("air")],
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.splitlines() == [
        "clew: audit: everything is written down",
        "parts.audit: can't stop: not quite",
    ]
    first, second = results_of(ran)
    assert first["content"][0]["text"] == "lead: 3 kg"
    assert second["is_error"]
    assert "air weighs nothing" in json.dumps(second)
    opened, *lines = log.read_text("utf-8").splitlines()
    assert opened.split()[0::2] == ["open", "36"]
    assert lines == [
        "SessionStart ",
        "PreToolUse mcp__audit__weigh",
        "PreToolUse mcp__audit__weigh",
        "closed",
    ]


def test_rules_apply_to_the_functions_of_a_part(tmp_path: Path, package: Path) -> None:
    parts = {"audit": {"file": str(tmp_path / "log")}}
    ran = run_with_parts(tmp_path, package, parts, *FRAMES, answers=[weigh("lead")])
    (refused,) = results_of(ran)
    assert refused["is_error"]
    assert "3 kg" not in ran.stdout


@pytest.mark.parametrize(
    ("refuses", "words"),
    [
        ("all", "nothing today"),
        ("broken", "no scales"),
        ({"answer": None}, "parts.audit: on_event must return a dict, got NoneType"),
        ({"answer": False}, "parts.audit: on_event must return a dict, got bool"),
        ({"answer": {"decision": "deny"}}, "the reply is invalid"),
        (
            {"answer": {"descision": "block"}},
            "on_event returned the unknown key 'descision' (did you mean \\\"decision\\\"?)",
        ),
        ({"answer": {"hookSpecificOutput": {"hookEventName": "Stop"}}}, "the reply is for Stop"),
    ],
)
def test_a_part_that_refuses_or_fails_blocks_the_call(
    tmp_path: Path, package: Path, refuses: object, words: str
) -> None:
    ran = run_with_parts(
        tmp_path,
        package,
        {"audit": {"file": str(tmp_path / "log"), "refuses": refuses}},
        *FRAMES,
        answers=[{"content": [{"tool": "Bash", "input": {"command": "ls"}}]}],
    )
    (refused,) = results_of(ran)
    assert refused["is_error"]
    assert words in json.dumps(refused)


def test_a_part_may_have_slash_commands(tmp_path: Path, package: Path) -> None:
    log = tmp_path / "log"

    def type_line(line: str) -> subprocess.CompletedProcess[str]:
        settings = json.dumps({"parts": {"audit": {"file": str(log)}, "wrong": True}})
        return clew(
            tmp_path,
            "http://127.0.0.1:9",
            *("-p", line, "--settings", settings),
            environ={"PYTHONPATH": str(package)},
        )

    assert type_line("/audit").stdout.startswith("open ")
    failed = type_line("/audit loudly")
    assert "not loudly" in failed.stdout + failed.stderr
    assert "Traceback" not in failed.stderr
    failed = type_line("/plain")
    assert "must be an async function; it returned 'plain'" in failed.stdout + failed.stderr
    assert "Show what was written (audit)" in type_line("/help").stdout


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"audit": True}, "parts.audit: file is missing"),
        ({"audit": 3}, "parts.audit: expected true, false or an object"),
        ({"missing": True}, "parts.missing: no installed package offers this part"),
        ({"late": True}, "parts.late: can't start: too late"),
        ({"odd": True}, "parts.odd: unknown event Lunch"),
        ({"stranger": True}, "parts.stranger: dict is not a clew.PackagePart"),
        ({"a/b": True}, "parts.a/b: invalid name; use up to 64 letters"),
        ({"blocks": True}, "parts.blocks: on_event must be an async function"),
        ({"wrong": {"functions": ["weigh"]}}, "functions made with clew.tool, got ['weigh']"),
        ({"wrong": {"functions": None}}, "parts.wrong: functions: 'NoneType' object"),
        ({"wrong": {"commands": 3}}, "parts.wrong: commands: 'int' object"),
        ({"wrong": {"commands": {"a b": 3}}}, "parts.wrong: commands: invalid name 'a b'"),
        ({"wrong": {"commands": {"a": 3}}}, "parts.wrong: commands: a: expected an async function"),
        ({"wrong": {"notices": "abc"}}, "parts.wrong: notices: expected a list of strings"),
        (["audit"], "parts: "),
        ("audit", "parts: "),
    ],
)
def test_a_part_that_cannot_be_made_ends_the_start(
    tmp_path: Path, package: Path, parts: object, words: str
) -> None:
    failed = run_with_parts(tmp_path, package, parts)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert words in failed.stderr
    assert "Traceback" not in failed.stderr
    # Programs that must work in any environment start without parts.
    assert run_with_parts(tmp_path, package, parts, "--bare").stdout == "Done.\n"


@pytest.mark.parametrize("is_trusted", [False, True])
def test_only_a_trusted_folder_can_prevent_the_start_with_an_invalid_part(
    tmp_path: Path, package: Path, is_trusted: bool
) -> None:
    write(tmp_path / "work/.claude/settings.json", '{"parts": ["audit"]}')
    if is_trusted:
        trust(tmp_path)
    ran = run_with_parts(tmp_path, package, {})
    assert ran.stdout == ("" if is_trusted else "Done.\n")
    assert "settings.json:1: parts: expected an object" in ran.stderr
    assert ("ignored because the folder is not trusted" in ran.stderr) is not is_trusted
