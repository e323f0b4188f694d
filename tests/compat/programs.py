"""The published programs that `make compat` drives, in these versions, and their installation.

docs/extending/compatibility.md has a row for each; `python -m tests.compat` compares it.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.testing.server import LoopbackServer, serving
from tests.compat.sdk_plugin import executable

Json: TypeAlias = dict[str, Any]

UV = str(Path(sys.executable).parent / "uv")
# Kept for later runs. A folder of earlier runs can be named with PROGRAMS.
FOLDER = Path(os.environ.get("PROGRAMS") or Path(__file__).parents[2] / ".build" / "programs")
MAKES = {
    "scenario": 1,
    "answers": [
        {"content": ["I make it.", {"tool": "Bash", "input": {"command": "mkdir gold"}}]},
        {"text": "It is done."},
        {"text": "Once more.", "times": "always"},
    ],
}
AGENT_SDK = "claude-agent-sdk==0.2.189"


@dataclass(frozen=True)
class Published:
    """A program from npm (`name@version`) or PyPI (`name==version`), and what its test drives."""

    driven: str
    # The first one names the version.
    packages: tuple[str, ...]

    @property
    def version(self) -> str:
        return self.packages[0].rpartition("@")[2].rpartition("==")[2]

    @property
    def is_python(self) -> bool:
        return any("==" in package for package in self.packages)


PROGRAMS = {
    "ccusage 18": Published(
        "tokens and cost of a day, the same as clew's own",
        ("ccusage@18.0.11",),
    ),
    "ccusage 20": Published(
        "tokens and cost of a day, the same as clew's own",
        ("ccusage@20.0.24", "@ccusage/ccusage-linux-x64@20.0.24"),
    ),
    "ccstatusline": Published(
        "its default widgets, below clew's prompt",
        ("ccstatusline@2.2.30",),
    ),
    "claude-agent-acp": Published(
        "a prompt, a permission prompt, a change of the mode",
        ("@agentclientprotocol/claude-agent-acp@0.101.0",),
    ),
    "ai-sdk-provider-claude-code": Published(
        "`doGenerate` with a tool call, and `doStream`",
        ("ai-sdk-provider-claude-code@4.1.0",),
    ),
    "happy": Published(
        "local mode: a prompt and a permission prompt in its terminal",
        ("happy@1.2.5",),
    ),
    "claude-mem": Published(
        "a prompt is remembered: its hooks, its server and its questions to clew",
        ("claude-mem@13.25.3", "bun@1.4.5", "zod@4"),
    ),
    "claude-monitor": Published(
        "the tokens of the current five hours, each response once",
        ("claude-monitor==4.0.0",),
    ),
    "claude-code-log": Published(
        "a session as a page: prompts, calls, results",
        ("claude-code-log==1.7.0",),
    ),
    "claude-code-transcripts": Published(
        "a session as a page: prompts, calls, results",
        ("claude-code-transcripts==0.6",),
    ),
    "claude-code-tools": Published(
        "`aichat export` and `aichat info` of a session",
        ("claude-code-tools==1.30.2",),
    ),
    "sniffly": Published(
        "its dashboard: tokens and tools of a project",
        ("sniffly==0.1.5",),
    ),
    "openinference": Published(
        "a span for the turn with its tokens, and one for the tool call",
        ("openinference-instrumentation-claude-agent-sdk==0.1.22", AGENT_SDK, "opentelemetry-sdk"),
    ),
    "inspect-swe": Published(
        "`claude_code` with mockllm in the local sandbox; its tokenizer replaced",
        ("inspect-swe==0.2.72", "inspect-ai==0.3.285", "anthropic"),
    ),
    "mlflow": Published(
        "`autolog`: a trace with the tool call and the tokens",
        ("mlflow-skinny==3.17.2", AGENT_SDK, "anthropic", "python-dateutil"),
    ),
    "tdd-guard": Published(
        "its hook asks clew about a change, and blocks it",
        ("tdd-guard@0.8.1",),
    ),
    "claude-max-api-proxy": Published(
        "chat completions over clew, whole and as a stream",
        ("claude-max-api-proxy@1.0.0",),
    ),
    "claude-code-acp": Published(
        "a prompt and a permission prompt, with the default model",
        ("@zed-industries/claude-code-acp@0.16.2",),
    ),
    "claude-code-mcp": Published(
        "its tool, which runs clew in a folder",
        ("@steipete/claude-code-mcp@1.10.12",),
    ),
    "claude-code-openai": Published(
        "chat completions over clew, whole and as a stream",
        ("claude-code-openai==0.1.1",),
    ),
    "claude-code-sdk": Published(
        "the SDK's predecessor: a client with a permission callback, and a query",
        ("claude-code-sdk==0.0.25",),
    ),
    "claude-code-langchain": Published(
        "a chat model: text, a stream, a tool call, structured output in one turn",
        ("claude-code-langchain==0.1.0", AGENT_SDK),
    ),
    "agent-framework-claude": Published(
        "`ClaudeAgent`: a run with a tool call, and a streamed one",
        ("agent-framework-claude==1.0.0b261015", AGENT_SDK),
    ),
    "agent-client-protocol": Published(
        "`clew acp`: a prompt, a permission prompt, a mode, the list of sessions",
        ("agent-client-protocol==0.12.1",),
    ),
    "cchooks": Published(
        "hooks that deny, allow and add context",
        ("cchooks==0.1.5",),
    ),
    "claude-conversation-extractor": Published(
        "a session as Markdown",
        ("claude-conversation-extractor==1.1.2",),
    ),
    "cc-conversation-search": Published(
        "its index of sessions, and a search for a command",
        ("cc-conversation-search==0.5.3",),
    ),
    "claude-code-to-sqlite": Published(
        "an import of all sessions, and its statistics",
        ("claude-code-to-sqlite==0.1.0",),
    ),
    "claude-code-sdk-ts": Published(
        "a query with a tool call, and its fluent interface",
        ("@instantlyeasy/claude-code-sdk-ts@0.3.3",),
    ),
    "ralphy-cli": Published(
        "a task in a git repository",
        ("ralphy-cli@4.7.2",),
    ),
    "ccundo": Published(
        "its list of operations, and an undone file",
        ("ccundo@1.1.1",),
    ),
    "claude-run": Published(
        "a session of the terminal over its web interface",
        ("claude-run@0.3.0",),
    ),
    "cc-statistics": Published(
        "tools and tokens of a session",
        ("cc-statistics==1.1.4",),
    ),
    "cc-context-stats": Published(
        "its line below clew's prompt",
        ("cc-context-stats==1.17.0",),
    ),
    "claude-historian-mcp": Published(
        "its MCP server lists the sessions",
        ("claude-historian-mcp@1.0.3",),
    ),
    "ccmanager": Published(
        "its detector recognizes a permission prompt, a question and a busy session",
        ("ccmanager@4.2.3",),
    ),
    "@anthropic-ai/claude-agent-sdk": Published(
        "a streaming query with callbacks and controls: see [TypeScript](#typescript)",
        ("@anthropic-ai/claude-agent-sdk@0.3.332",),
    ),
}
# Programs that no test drives: version, what was tested, and why no test does it.
NOT_RUN = {
    "cloudcli": (
        "1.37.3",
        "a prompt and a permission prompt over its WebSocket, with `CLAUDE_CLI_PATH`",
        "by hand: its parts have to be compiled",
    ),
    "claude-code-ui": (
        "1.12.0",
        "nothing; it is the predecessor of cloudcli",
        "not run: always starts the client that its SDK contains",
    ),
    "claude-code-statusline": (
        "0.14.0",
        "its line below clew's prompt",
        "by hand: needs Python 3.13",
    ),
}


def folder_of(name: str) -> Path:
    """Return the folder of a program, with a name for these versions only."""
    return FOLDER / f"{re.sub(r'[^a-z0-9]+', '-', name)}-{PROGRAMS[name].version}"


def is_installed(name: str) -> bool:
    mark = folder_of(name) / "installed"
    return mark.exists() and mark.read_text("utf-8").split() == [*PROGRAMS[name].packages]


def install(name: str) -> None:
    """Install a program unless an earlier run did."""
    if is_installed(name):
        return
    folder, packages = folder_of(name), PROGRAMS[name].packages
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if name == "claude-mem":
        # A plugin: unpacked next to the programs that it runs with, without the parsers of its
        # own search.
        words = ["npm", "pack", "--silent", packages[0]]
        packed = subprocess.run(
            words, cwd=folder, check=True, capture_output=True, encoding="utf-8", timeout=300
        )
        subprocess.run(["tar", "xzf", packed.stdout.strip()], cwd=folder, check=True)
        packages = packages[1:]
    if PROGRAMS[name].is_python:
        subprocess.run([UV, "venv", "--quiet", "--clear", str(folder)], check=True, timeout=300)
        words = [UV, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
    else:
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        words += ["--prefix", str(folder)]
        # The SDK's own client, which is large.
        words += ["--omit=optional"] if name == "@anthropic-ai/claude-agent-sdk" else []
    subprocess.run([*words, *packages], check=True, timeout=900)
    (folder / "installed").write_text(" ".join(PROGRAMS[name].packages), "utf-8")


class Program:
    """A published program with a home folder of its own, in which clew has its sessions too."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self.home = home
        self.work = home / "work"
        self.work.mkdir(parents=True)
        # No first start, which would ask questions.
        (home / ".claude" / "clew").mkdir(parents=True)
        assert is_installed(name), f"{name} is not installed"
        self.folder = folder_of(name)
        self.environ = {
            "PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "CI": "1",
            "ANTHROPIC_API_KEY": "sk-ant-test-0000", "CLEW": executable(), "WORK": str(self.work),
        }  # fmt: skip

    def command(self, name: str) -> str:
        is_npm = (self.folder / "node_modules").exists()
        return str(self.folder / ("node_modules/.bin" if is_npm else "bin") / name)

    def run(self, *words: str, data: str = "") -> str:
        done = subprocess.run(
            words, cwd=self.work, env=self.environ, input=data, capture_output=True,
            encoding="utf-8", timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextlib.contextmanager
    def using(self, server: LoopbackServer) -> Iterator[None]:
        self.environ["ANTHROPIC_BASE_URL"] = server.url
        yield

    def hold_session(self) -> tuple[Path, Json]:
        """Let clew write a session of two turns; return its transcript and the last result."""
        with serving(MAKES) as server, self.using(server):
            flags = ("--output-format", "json", "--allowedTools", "Bash")
            self.run(executable(), "-p", "Make it", *flags)
            result = json.loads(self.run(executable(), "-p", "Again", "-c", *flags))
        (path,) = (self.home / ".claude" / "projects").glob("*/*.jsonl")
        return path, result


def drives(*names: str) -> pytest.MarkDecorator:
    """Run a test with each of these programs, as its argument `program`."""
    return pytest.mark.parametrize("program", names, indirect=True)
