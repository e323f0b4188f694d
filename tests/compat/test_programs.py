"""Published programs that read clew's sessions or drive clew, unchanged.

Each is installed in the version that the table of docs/extending/compatibility.md names, against a
scripted service on this machine; every other address is out of reach. The table is written by a run
with CLEW_DRAW=1, and every other run compares its row.
"""

import contextlib
import json
import os
import pty
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGTERM
from typing import IO, Any

import httpx2
import pyte
import pytest

from clew.testing.server import LoopbackServer, serving
from tests.compat.sdk_plugin import executable
from tests.fronts.headless.clew_process import until
from tests.fronts.terminal.screen import COLUMNS, PLAIN, ROWS, Glass, OnScreen

Json = dict[str, Any]
UV = str(Path(sys.executable).parent / "uv")
TABLE = Path(__file__).parents[2] / "docs" / "extending" / "compatibility.md"
NOWHERE = "http://127.0.0.1:9"
# The packages of each program; the first names the version.
PACKAGES: dict[str, tuple[str, ...]] = {
    "ccusage 18": ("ccusage@18.0.11",),
    "ccusage 20": ("ccusage@20.0.24", "@ccusage/ccusage-linux-x64@20.0.24"),
    "ccstatusline": ("ccstatusline@2.2.30",),
    "claude-agent-acp": ("@agentclientprotocol/claude-agent-acp@0.101.0",),
    "ai-sdk-provider-claude-code": ("ai-sdk-provider-claude-code@4.1.0",),
    "happy": ("happy@1.2.5",),
    # A plugin: unpacked beside the programs that it runs with, without the parsers of its own search.
    "claude-mem": ("claude-mem@13.25.3", "bun@1.4.5", "zod@4"),
    "claude-monitor": ("claude-monitor==4.0.0",),
    "claude-code-log": ("claude-code-log==1.7.0",),
    "claude-code-transcripts": ("claude-code-transcripts==0.6",),
    "claude-code-tools": ("claude-code-tools==1.30.2",),
    "sniffly": ("sniffly==0.1.5",),
    "openinference": (
        "openinference-instrumentation-claude-agent-sdk==0.1.22",
        "claude-agent-sdk==0.2.189",
        "opentelemetry-sdk",
    ),
    "inspect-swe": ("inspect-swe==0.2.72", "inspect-ai==0.3.285", "anthropic"),
    "mlflow": (
        "mlflow-skinny==3.17.2",
        "claude-agent-sdk==0.2.189",
        "anthropic",
        "python-dateutil",
    ),
    "tdd-guard": ("tdd-guard@0.8.1",),
    "claude-max-api-proxy": ("claude-max-api-proxy@1.0.0",),
    "claude-code-acp": ("@zed-industries/claude-code-acp@0.16.2",),
    "claude-code-mcp": ("@steipete/claude-code-mcp@1.10.12",),
    "claude-code-openai": ("claude-code-openai==0.1.1",),
    "claude-code-sdk": ("claude-code-sdk==0.0.25",),
    "claude-code-langchain": ("claude-code-langchain==0.1.0", "claude-agent-sdk==0.2.189"),
    "agent-framework-claude": (
        "agent-framework-claude==1.0.0b261015",
        "claude-agent-sdk==0.2.189",
    ),
    "agent-client-protocol": ("agent-client-protocol==0.12.1",),
    "cchooks": ("cchooks==0.1.5",),
    "claude-conversation-extractor": ("claude-conversation-extractor==1.1.2",),
    "cc-conversation-search": ("cc-conversation-search==0.5.3",),
    "claude-code-to-sqlite": ("claude-code-to-sqlite==0.1.0",),
}
MAKES = {
    "scenario": 1,
    "answers": [
        {"content": ["I make it.", {"tool": "Bash", "input": {"command": "mkdir gold"}}]},
        {"text": "It is done."},
        {"text": "Once more.", "times": "always"},
    ],
}
pytestmark = pytest.mark.e2e


class Program:
    """A published program with a home folder of its own, in which clew has its sessions too."""

    def __init__(self, name: str, programs: Path, home: Path) -> None:
        self.name = name
        self.home = home
        self.work = home / "work"
        self.work.mkdir(parents=True)
        # No first start, which would ask questions.
        (home / ".claude" / "clew").mkdir(parents=True)
        self.folder = install(name, programs)
        self.environ = {
            "PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "CI": "1",
            "HTTPS_PROXY": NOWHERE, "HTTP_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost",
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

    def enter(self, driven: str) -> None:
        """Compare this program's row of the table, or write it with CLEW_DRAW=1."""
        version = PACKAGES[self.name][0].rpartition("@")[2].rpartition("==")[2]
        begin = f"| {self.name} | {version} | "
        lines = TABLE.read_text("utf-8").splitlines(keepends=True)
        old = next((line for line in lines if line.startswith(f"| {self.name} |")), "")
        if os.environ.get("CLEW_DRAW") == "1":
            new = f"{begin}{datetime.now(UTC):%Y-%m-%d} | {driven} |\n"
            TABLE.write_text(
                "".join(lines).replace(old, new) if old else "".join(lines) + new, "utf-8"
            )
        else:
            assert old.startswith(begin), old
            assert old.endswith(f" | {driven} |\n"), old


def install(name: str, programs: Path) -> Path:
    """Install a program unless an earlier run with PROGRAMS did; return its folder."""
    folder = programs / name.replace(" ", "-")
    if (folder / "installed").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    packages = PACKAGES[name]
    if name == "claude-mem":
        packed = subprocess.run(
            ["npm", "pack", "--silent", packages[0]],
            cwd=folder, check=True, capture_output=True, encoding="utf-8", timeout=300,
        )  # fmt: skip
        subprocess.run(["tar", "xzf", packed.stdout.strip()], cwd=folder, check=True)
        packages = packages[1:]
    if any("==" in package for package in packages):
        subprocess.run([UV, "venv", "--quiet", "--clear", str(folder)], check=True, timeout=300)
        words = [UV, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
    else:
        npm = shutil.which("npm")
        assert npm is not None, "npm is needed to install published programs"
        words = [npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        words += ["--prefix", str(folder)]
    subprocess.run([*words, *packages], check=True, timeout=900)
    (folder / "installed").touch()
    return folder


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(os.environ.get("PROGRAMS") or tmp_path_factory.mktemp("programs"))


@pytest.fixture
def begin(programs: Path, tmp_path: Path) -> Callable[[str], Program]:
    return lambda name: Program(name, programs, tmp_path)


# -- programs that read sessions


@pytest.mark.parametrize("name", ["ccusage 18", "ccusage 20"])
def test_ccusage(begin: Callable[[str], Program], name: str) -> None:
    program = begin(name)
    _, result = program.hold_session()
    report = json.loads(program.run(program.command("ccusage"), "daily", "--json", "--offline"))
    totals = report["totals"]
    assert totals["inputTokens"] == 300
    assert totals["totalCost"] == pytest.approx(result["total_cost_usd"])
    program.enter("tokens and cost of a day, the same as clew's own")


def test_claude_monitor(begin: Callable[[str], Program]) -> None:
    program = begin("claude-monitor")
    _, result = program.hold_session()
    words = ("--view", "daily", "--output", "json", "--once")
    report = json.loads(program.run(program.command("claude-monitor"), *words))
    spent = sum(
        model["inputTokens"] + model["outputTokens"] for model in result["modelUsage"].values()
    )
    assert report["limits"]["five_hour"]["tokens_used"] >= spent > 0
    program.enter("the tokens of the current five hours, each response once")


@pytest.mark.parametrize("name", ["claude-code-log", "claude-code-transcripts"])
def test_pages_of_a_session(begin: Callable[[str], Program], name: str) -> None:
    program = begin(name)
    path, _ = program.hold_session()
    page = program.home / "page"
    if name == "claude-code-log":
        program.run(program.command(name), str(path.parent), "-o", f"{page}.html")
        text = Path(f"{page}.html").read_text("utf-8")
    else:
        program.run(program.command(name), "json", str(path), "-o", str(page))
        text = "".join(file.read_text("utf-8") for file in page.glob("*.html"))
    for said in ("Make it", "I make it.", "mkdir gold", "It is done.", "Again", "Once more."):
        assert said in text
    program.enter("a session as a page: prompts, calls, results")


def test_claude_code_tools(begin: Callable[[str], Program]) -> None:
    program = begin("claude-code-tools")
    path, _ = program.hold_session()
    text = program.home / "session.txt"
    program.run(program.command("aichat"), "export", str(path), "--output", str(text))
    assert "Bash(mkdir gold)" in text.read_text("utf-8")
    assert path.stem in program.run(program.command("aichat"), "info", str(path))
    program.enter("`aichat export` and `aichat info` of a session")


def responds(client: httpx2.Client, path: str) -> bool:
    try:
        return client.get(path).status_code == 200
    except httpx2.TransportError:
        return False


def test_sniffly(begin: Callable[[str], Program], tmp_path: Path) -> None:
    program = begin("sniffly")
    path, _ = program.hold_session()
    words = [program.command("sniffly"), "init", "--no-browser", "--port", "18199"]
    with (
        (tmp_path / "sniffly.log").open("w", encoding="utf-8") as log,
        running(program, words, log),
    ):
        ask = httpx2.Client(base_url="http://127.0.0.1:18199", trust_env=False)
        until(lambda: responds(ask, "/api/health"), within_s=60)
        chosen = ask.post("/api/project-by-dir", json={"dir_name": path.parent.name})
        assert chosen.status_code == 200, chosen.text
        stats = ask.get("/api/stats").json()
        ask.close()
    # It counts each line of a response, in sessions of the other product too.
    assert stats["overview"]["total_tokens"]["input"] == 400
    assert stats["tools"]["usage_counts"] == {"Bash": 1}
    program.enter("its dashboard: tokens and tools of a project")


@contextlib.contextmanager
def running(program: Program, words: list[str], log: IO[str], **more: Any) -> Iterator[Any]:
    pipes = {"stdout": log} | more
    with subprocess.Popen(
        words, cwd=program.work, env=program.environ, stderr=log, **pipes
    ) as child:
        try:
            yield child
        finally:
            child.terminate()


def test_ccstatusline(begin: Callable[[str], Program]) -> None:
    program = begin("ccstatusline")
    seen = program.home / "seen.json"
    line = {"type": "command", "command": f"tee {seen} | {program.command('ccstatusline')}"}
    (program.home / ".claude" / "settings.json").write_text(
        json.dumps({"statusLine": line}), "utf-8"
    )
    environ = program.environ | {"CLEW_CONFIG_DIR": str(program.home / ".claude")}
    with (
        serving(MAKES) as server,
        OnScreen(
            program.home, server.url, "--allowedTools", "Bash", env=environ, columns=120
        ) as screen,
    ):
        screen.type("go\r")
        screen.expect("It is done.")
        screen.expect("Ctx")
        assert "Sonnet" in screen.text
    program.enter("its default widgets, below clew's prompt")


# -- programs that drive clew


def test_claude_agent_acp(begin: Callable[[str], Program], tmp_path: Path) -> None:
    program = begin("claude-agent-acp")
    program.environ["CLAUDE_CODE_EXECUTABLE"] = executable()
    words = ["node", program.command("claude-agent-acp")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    with (
        serving(MAKES) as server,
        program.using(server),
        (tmp_path / "acp.log").open("w", encoding="utf-8") as log,
        running(program, words, log, **pipes) as child,
    ):
        editor = AcpEditor(child)
        editor.ask("initialize", protocolVersion=1, clientCapabilities={})
        session = editor.ask("session/new", cwd=str(program.work), mcpServers=[])["sessionId"]
        prompt = [{"type": "text", "text": "go"}]
        ended = editor.ask("session/prompt", sessionId=session, prompt=prompt)
        editor.ask("session/set_mode", sessionId=session, modeId="plan")
    assert ended["stopReason"] == "end_turn"
    assert (ended["usage"]["inputTokens"], editor.permissions) == (200, ["mkdir gold"])
    assert (program.work / "gold").is_dir()
    assert "I make it.It is done." in editor.text
    program.enter("a prompt, a permission prompt, a change of the mode")


class AcpEditor:
    """The editor's end of the Agent Client Protocol, which approves every call once."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        self._asked = 0
        self.text = ""
        self.permissions: list[str] = []

    def _send(self, **message: Any) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._child.stdin.flush()

    def ask(self, method: str, **params: Any) -> Json:
        self._asked += 1
        self._send(id=self._asked, method=method, params=params)
        assert self._child.stdout is not None
        for line in self._child.stdout:
            message = json.loads(line)
            if message.get("id") == self._asked and "method" not in message:
                assert "result" in message, message
                result: Json = message["result"]
                return result
            self._hear(message)
        raise AssertionError("the agent ended")

    def _hear(self, message: Json) -> None:
        match message.get("method"):
            case "session/update":
                update = message["params"]["update"]
                if update["sessionUpdate"] == "agent_message_chunk":
                    self.text += update["content"]["text"]
            case "session/request_permission":
                self.permissions.append(message["params"]["toolCall"]["title"])
                option = next(
                    one["optionId"]
                    for one in message["params"]["options"]
                    if one["kind"] == "allow_once"
                )
                outcome = {"outcome": "selected", "optionId": option}
                self._send(id=message["id"], result={"outcome": outcome})


AI_SDK = """
import { createRequire } from 'module';
const require = createRequire(process.env.FOLDER + '/x.js');
const { createClaudeCode } = await import(require.resolve('ai-sdk-provider-claude-code'));
const settings = { pathToClaudeCodeExecutable: process.env.CLEW, cwd: process.env.WORK,
  allowedTools: ['Bash'] };
const model = createClaudeCode({ defaultSettings: settings })('sonnet');
const prompt = [{ role: 'user', content: [{ type: 'text', text: 'go' }] }];
const { content, usage } = await model.doGenerate({ prompt });
const { stream } = await model.doStream({ prompt });
let streamed = '';
for await (const part of stream) if (part.type === 'text-delta') streamed += part.delta;
console.log(JSON.stringify({ content, usage, streamed }));
"""


def test_ai_sdk_provider(begin: Callable[[str], Program]) -> None:
    program = begin("ai-sdk-provider-claude-code")
    program.environ["FOLDER"] = str(program.folder)
    with serving(MAKES) as server, program.using(server):
        seen = json.loads(program.run("node", "--input-type=module", "-e", AI_SDK))
    assert [part["type"] for part in seen["content"]][-2:] == ["tool-result", "text"]
    assert seen["content"][-1]["text"] == "It is done."
    assert seen["usage"]["inputTokens"]["total"] == 200
    assert seen["streamed"] == "Once more."
    program.enter("`doGenerate` with a tool call, and `doStream`")


QUERY = """
import asyncio, os, claude_agent_sdk as sdk
options = sdk.ClaudeAgentOptions(
    cli_path=os.environ["CLEW"], cwd=os.environ["WORK"], allowed_tools=["Bash"])
async def main():
    async with sdk.ClaudeSDKClient(options) as client:
        await client.query("go")
        async for _ in client.receive_response():
            pass
"""
OPENINFERENCE = f"""
import json
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from openinference.instrumentation.claude_agent_sdk import ClaudeAgentSDKInstrumentor
spans, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
ClaudeAgentSDKInstrumentor().instrument(tracer_provider=provider)
{QUERY}
asyncio.run(main())
found = spans.get_finished_spans()
print(json.dumps({{span.name: dict(span.attributes) for span in found}}))
"""
MLFLOW = f"""
import json, os
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
import claude_agent_sdk, mlflow
mlflow.set_tracking_uri("file:" + os.environ["WORK"] + "/mlruns")
mlflow.anthropic.autolog()
{QUERY}
asyncio.run(main())
(trace,) = mlflow.search_traces(return_type="list")
print(json.dumps([[span.name for span in trace.data.spans], trace.info.token_usage]))
"""


def test_openinference(begin: Callable[[str], Program]) -> None:
    program = begin("openinference")
    with serving(MAKES) as server, program.using(server):
        spans = json.loads(program.run(program.command("python"), "-c", OPENINFERENCE))
    assert spans.pop("Bash")["tool.parameters"] == '{"command": "mkdir gold"}'
    (agent,) = spans.values()
    assert (agent["output.value"], agent["llm.token_count.prompt"]) == ("It is done.", 200)
    program.enter("a span for the turn with its tokens, and one for the tool call")


def test_mlflow(begin: Callable[[str], Program]) -> None:
    program = begin("mlflow")
    with serving(MAKES) as server, program.using(server):
        said = program.run(program.command("python"), "-c", MLFLOW).splitlines()[-1]
    names, usage = json.loads(said)
    assert "tool_Bash" in names
    assert usage["input_tokens"] == 200
    program.enter("`autolog`: a trace with the tool call and the tokens")


INSPECT = """
import json, tiktoken
class Words:
    # Its tables would be downloaded.
    def encode(self, text, **_):
        return text.split()
tiktoken.get_encoding = tiktoken.encoding_for_model = lambda _: Words()
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_swe import claude_code
name = "mockllm/model"
outputs = [ModelOutput.for_tool_call(name, "Bash", {"command": "mkdir gold"})]
outputs += [ModelOutput.from_content(name, "It is done.")] * 6
task = Task(dataset=[Sample(input="go", target="x")], solver=claude_code(version="sandbox"),
    sandbox="local")
(log,) = eval(task, model=get_model(name, custom_outputs=outputs), display="none")
messages = log.samples[0].messages if log.samples else []
print(json.dumps([log.status, [message.role for message in messages], messages[-1].text]))
"""


def test_inspect_swe(begin: Callable[[str], Program]) -> None:
    program = begin("inspect-swe")
    (program.home / "bin").mkdir()
    (program.home / "bin" / "claude").symlink_to(executable())
    program.environ["PATH"] = f"{program.home / 'bin'}:{program.environ['PATH']}"
    said = program.run(program.command("python"), "-c", INSPECT).splitlines()[-1]
    status, roles, last = json.loads(said)
    assert (status, last) == ("success", "It is done.")
    assert roles[-3:] == ["assistant", "tool", "assistant"]
    program.enter("`claude_code` with mockllm in the local sandbox; its tokenizer replaced")


class ProgramOnScreen(OnScreen):
    """A program on a terminal of its own, which starts clew there."""

    def __init__(self, program: Program, *words: str, **environ: str) -> None:
        self._fd, theirs = pty.openpty()
        self.resize(COLUMNS, ROWS)
        self.child = subprocess.Popen(
            ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(theirs), *words],
            cwd=program.work,
            env=program.environ | {"TERM": "xterm-256color"} | environ,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        self.glass = Glass(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.glass)
        self._answers = dict(PLAIN)
        self.raw = self._unfinished = b""


def test_happy(begin: Callable[[str], Program]) -> None:
    program = begin("happy")
    happy = program.home / ".happy"
    happy.mkdir()
    # An account of a service that is out of reach: local mode needs none that answers.
    key = {"secret": "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg=", "token": "none"}
    (happy / "access.key").write_text(json.dumps(key), "utf-8")
    settings = {"machineId": "m", "onboardingCompleted": True, "schemaVersion": 2}
    (happy / "settings.json").write_text(json.dumps(settings), "utf-8")
    environ = {
        "HAPPY_HOME_DIR": str(happy), "HAPPY_SERVER_URL": NOWHERE, "HAPPY_CLAUDE_PATH": executable(),
    }  # fmt: skip
    try:
        with (
            serving(MAKES) as server,
            program.using(server),
            ProgramOnScreen(program, program.command("happy"), **environ) as screen,
        ):
            screen.expect("default mode", within_s=90)
            assert "HAPPY_CLAUDE_PATH" in screen.text
            screen.type("go\r")
            screen.expect("Run this command?")
            screen.type("y")
            screen.expect("It is done.")
    finally:
        program.run(program.command("happy"), "daemon", "stop")
    assert (program.work / "gold").is_dir()
    program.enter("local mode: a prompt and a permission prompt in its terminal")


REMEMBERED = {
    "observation": "<observation><type>discovery</type><title>Gold is made</title>"
    "<narrative>A folder.</narrative></observation>",
    "summary": "<summary><request>Make gold</request><completed>It is made</completed></summary>",
}


def test_claude_mem(begin: Callable[[str], Program]) -> None:
    """Its hooks start a server that outlives clew, and that asks clew what to remember."""
    program = begin("claude-mem")
    home, plugin = program.home / ".claude-mem", program.folder / "package" / "plugin"
    (program.home / "bin").mkdir()
    (program.home / "bin" / "claude").symlink_to(executable())
    # Without its script of the installation, the package's own `bun` is none.
    (bun,) = program.folder.glob("node_modules/@oven/bun-*/bin")
    programs = [str(program.home / "bin"), str(bun)]
    program.environ["PATH"] = ":".join([*programs, program.environ["PATH"]])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        program.environ["CLAUDE_MEM_WORKER_PORT"] = str(free.getsockname()[1])

    def answer(body: Json) -> Json:
        text = json.dumps(body["messages"][-1])
        if any(tool.get("name") == "Bash" for tool in body.get("tools", ())):
            if "tool_result" in text:
                return {"text": "It is done."}
            return {"content": [{"tool": "Bash", "input": {"command": "mkdir gold; sleep 2"}}]}
        kind = "summary" if "PROGRESS SUMMARY" in text else "observation"
        return {"text": REMEMBERED[kind]}

    with serving(answer) as server, program.using(server):
        home.mkdir()
        # It takes keys out of the environment.
        keys = f"ANTHROPIC_API_KEY=sk-ant-test-0000\nANTHROPIC_BASE_URL={server.url}\n"
        (home / ".env").write_text(keys, "utf-8")
        try:
            said = program.run(
                executable(), "-p", "Make gold", "--allowedTools", "Bash",
                "--plugin-dir", str(plugin),
            )  # fmt: skip
            assert said == "It is done.\n"
            worker = json.loads((home / "worker.pid").read_text("utf-8"))["pid"]
            until(lambda: remembered(home, "session_summaries", "request") == ["Make gold"])
            assert remembered(home, "observations", "title") == ["Gold is made"]
            os.kill(worker, 0)
        finally:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                os.kill(json.loads((home / "worker.pid").read_text("utf-8"))["pid"], SIGTERM)
    program.enter("a prompt is remembered: its hooks, its server and its questions to clew")


def remembered(home: Path, table: str, column: str) -> list[str]:
    with contextlib.closing(sqlite3.connect(home / "claude-mem.db")) as database:
        rows = database.execute(f"select distinct {column} from {table}").fetchall()
    return [value for (value,) in rows]


# -- programs that nobody here wrote, which drive clew under the name `claude`


def under_the_name_claude(program: Program) -> None:
    (program.home / "bin").mkdir()
    (program.home / "bin" / "claude").symlink_to(executable())
    program.environ["PATH"] = f"{program.home / 'bin'}:{program.environ['PATH']}"


def test_tdd_guard(begin: Callable[[str], Program]) -> None:
    """Its hook asks clew, with 60 lines on standard input and without --print."""
    program = begin("tdd-guard")
    under_the_name_claude(program)
    program.environ |= {"USE_SYSTEM_CLAUDE": "true", "VALIDATION_CLIENT": "cli"}
    hook = [{"hooks": [{"type": "command", "command": program.command("tdd-guard")}]}]
    settings = json.dumps({"hooks": {"PreToolUse": hook, "UserPromptSubmit": hook}})
    path = str(program.work / "calc.py")
    write = {"tool": "Write", "input": {"file_path": path, "content": "def add(a, b): ...\n"}}
    verdict = json.dumps({"decision": "block", "reason": "No failing test first."})
    answers = {"scenario": 1, "answers": [{"content": [write]}, {"text": verdict}, {"text": "So."}]}
    with serving(answers, strict=True) as server, program.using(server):
        words = ("-p", "write it", "--permission-mode", "acceptEdits", "--settings", settings)
        assert program.run(executable(), *words) == "So.\n"
        reason = json.dumps(server.requests[-1].body["messages"][-1])
        assert "PreToolUse:Write hook error: No failing test first." in reason
        assert len(server.requests) == 3
    assert not Path(path).exists()
    assert not (program.work / ".claude" / "CLAUDE.md").exists()
    program.enter("its hook asks clew about a change, and blocks it")


LANGCHAIN = """
import os
from claude_code_langchain import ChatClaudeCode
from langchain_core.tools import tool
from pydantic import BaseModel
class Person(BaseModel):
    '''A person.'''
    name: str
    age: int
@tool
def weather(city: str) -> str:
    '''Say what the weather is.'''
    return "sunny"
model = ChatClaudeCode(model="sonnet", cli_path=os.environ["CLEW"])
print(model.invoke("go").text)
print("".join(chunk.text for chunk in model.stream("count")))
print(model.bind_tools([weather]).invoke("weather?").tool_calls[0]["args"])
print(model.with_structured_output(Person).invoke("Bob is 42."))
"""


def test_langchain(begin: Callable[[str], Program]) -> None:
    program = begin("claude-code-langchain")
    calls = [("mcp__langchain__weather", {"city": "Rome"}), ("StructuredOutput", BOB)]
    answers: list[Json] = [{"text": "Plain."}, {"text": "One two."}]
    answers += [{"content": [{"tool": name, "input": given}]} for name, given in calls]
    with serving({"scenario": 1, "answers": answers}) as server, program.using(server):
        said = program.run(program.command("python"), "-c", LANGCHAIN).splitlines()
    assert said == ["Plain.", "One two.", "{'city': 'Rome'}", "name='Bob' age=42"]
    program.enter("a chat model: text, a stream, a tool call, structured output in one turn")


BOB = {"name": "Bob", "age": 42}
FRAMEWORK = """
import asyncio
from agent_framework_claude import ClaudeAgent
async def main():
    options = {"permission_mode": "acceptEdits", "allowed_tools": ["Bash"]}
    async with ClaudeAgent(instructions="Be kind.", default_options=options) as agent:
        answer = await agent.run("go")
        print(answer.text, answer.usage_details["input_token_count"])
        print("".join([update.text async for update in agent.run("more", stream=True)]))
asyncio.run(main())
"""


def test_agent_framework(begin: Callable[[str], Program]) -> None:
    program = begin("agent-framework-claude")
    program.environ["CLAUDE_AGENT_CLI_PATH"] = executable()
    with serving(MAKES) as server, program.using(server):
        said = program.run(program.command("python"), "-c", FRAMEWORK).splitlines()
    assert said == ["I make it.It is done. 200", "Once more."]
    program.enter("`ClaudeAgent`: a run with a tool call, and a streamed one")


FIRST_SDK = """
import asyncio, os
from claude_code_sdk import ClaudeCodeOptions, ClaudeSDKClient, PermissionResultAllow, query
async def allow(tool, given, context):
    print(tool, given)
    return PermissionResultAllow()
async def main():
    async with ClaudeSDKClient(ClaudeCodeOptions(can_use_tool=allow)) as client:
        await client.query("go")
        async for message in client.receive_response():
            pass
    print(message.result)
    async for message in query(prompt="more", options=ClaudeCodeOptions(model="haiku")):
        pass
    print(message.result)
asyncio.run(main())
"""


def test_the_first_sdk(begin: Callable[[str], Program]) -> None:
    program = begin("claude-code-sdk")
    under_the_name_claude(program)
    with serving(MAKES) as server, program.using(server):
        said = program.run(program.command("python"), "-c", FIRST_SDK).splitlines()
    assert said == ["Bash {'command': 'mkdir gold'}", "It is done.", "Once more."]
    program.enter("the SDK's predecessor: a client with a permission callback, and a query")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("claude-max-api-proxy", ("node_modules/claude-max-api-proxy/dist/server/standalone.js",)),
        ("claude-code-openai", ("bin/claudegate", "serve", "--port")),
    ],
)
def test_chat_completions(
    begin: Callable[[str], Program], tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    program = begin(name)
    under_the_name_claude(program)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    start = [str(program.folder / words[0]), *words[1:], port]
    start = ["node", *start] if words[0].endswith(".js") else start
    answers = {"scenario": 1, "answers": [{"text": "Hello.", "times": "always"}]}
    with (
        serving(answers) as server,
        program.using(server),
        (tmp_path / "proxy.log").open("w", encoding="utf-8") as log,
        running(program, start, log),
        httpx2.Client(
            base_url=f"http://127.0.0.1:{port}/v1", trust_env=False, timeout=60
        ) as client,
    ):
        until(lambda: responds(client, "/models"), within_s=60)
        asked = {"model": "claude-sonnet-4", "messages": [{"role": "user", "content": "hi"}]}
        answer = client.post("/chat/completions", json=asked).json()
        stream = client.post("/chat/completions", json=asked | {"stream": True}).text
    assert answer["choices"][0]["message"]["content"] == "Hello."
    assert answer["usage"]["prompt_tokens"] == 100
    assert '"Hello."' in stream
    assert stream.rstrip().endswith("data: [DONE]")
    program.enter("chat completions over clew, whole and as a stream")


def test_the_earlier_acp_adapter(begin: Callable[[str], Program], tmp_path: Path) -> None:
    """It selects the first model of the handshake's list."""
    program = begin("claude-code-acp")
    program.environ["CLAUDE_CODE_EXECUTABLE"] = executable()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    log = tmp_path / "acp.log"
    with (
        serving(MAKES) as server,
        program.using(server),
        log.open("w", encoding="utf-8") as errors,
        running(program, ["node", program.command("claude-code-acp")], errors, **pipes) as child,
    ):
        editor = AcpEditor(child)
        editor.ask("initialize", protocolVersion=1, clientCapabilities={})
        session = editor.ask("session/new", cwd=str(program.work), mcpServers=[])
        prompt = [{"type": "text", "text": "go"}]
        ended = editor.ask("session/prompt", sessionId=session["sessionId"], prompt=prompt)
        assert {request.body["model"] for request in server.requests} == {"claude-sonnet-5-5"}
    assert (session["models"]["currentModelId"], ended["stopReason"]) == ("default", "end_turn")
    assert (editor.permissions, editor.text) == (["`mkdir gold`"], "I make it.It is done.")
    assert "failed" not in log.read_text("utf-8")
    program.enter("a prompt and a permission prompt, with the default model")


ACP = """
import asyncio, os
from acp import PROTOCOL_VERSION, Client, RequestPermissionResponse, spawn_agent_process, text_block
from acp.schema import AllowedOutcome
class Editor(Client):
    text = ""
    async def request_permission(self, options, session_id, tool_call, **_):
        print(tool_call.title)
        chosen = next(option for option in options if option.kind == "allow_once")
        outcome = AllowedOutcome(option_id=chosen.option_id, outcome="selected")
        return RequestPermissionResponse(outcome=outcome)
    async def session_update(self, session_id, update, **_):
        if update.session_update == "agent_message_chunk":
            self.text += update.content.text
async def main():
    editor, work = Editor(), os.environ["WORK"]
    start = spawn_agent_process(editor, os.environ["CLEW"], "acp", env=dict(os.environ))
    async with start as (agent, _):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = await agent.new_session(cwd=work, mcp_servers=[])
        ended = await agent.prompt(session_id=session.session_id, prompt=[text_block("go")])
        print(ended.stop_reason, editor.text)
        await agent.set_session_mode(session_id=session.session_id, mode_id="plan")
        print([one.title for one in (await agent.list_sessions(cwd=work)).sessions])
asyncio.run(main())
"""


def test_acp_from_python(begin: Callable[[str], Program]) -> None:
    program = begin("agent-client-protocol")
    with serving(MAKES) as server, program.using(server):
        said = program.run(program.command("python"), "-c", ACP).splitlines()
    assert said == ["Bash: mkdir gold", "end_turn I make it.It is done.", "['go']"]
    program.enter("`clew acp`: a prompt, a permission prompt, a mode, the list of sessions")


CCHOOKS = """#!{python}
from cchooks import PostToolUseContext, PreToolUseContext, create_context
context = create_context()
match context:
    case PreToolUseContext() if "gold" in context.tool_input["command"]:
        context.output.deny("no gold here")
    case PreToolUseContext():
        context.output.allow("fine")
    case PostToolUseContext():
        context.output.add_context("It was made.")
"""


def test_cchooks(begin: Callable[[str], Program]) -> None:
    program = begin("cchooks")
    script = program.home / "hook.py"
    script.write_text(CCHOOKS.format(python=program.command("python")), "utf-8")
    script.chmod(0o755)
    hook = [{"hooks": [{"type": "command", "command": str(script)}]}]
    settings = json.dumps({"hooks": dict.fromkeys(("PreToolUse", "PostToolUse", "Stop"), hook)})
    made = [{"tool": "Bash", "input": {"command": f"mkdir {what}"}} for what in ("gold", "tin")]
    answers = [*({"content": [call]} for call in made), {"text": "So."}]
    with serving({"scenario": 1, "answers": answers}) as server, program.using(server):
        program.run(executable(), "-p", "go", "--settings", settings)
        (_, denied, told) = (json.dumps(request.body) for request in server.requests)
    assert "no gold here" in denied
    assert "It was made." in told
    assert [path.name for path in program.work.iterdir()] == ["tin"]
    program.enter("hooks that deny, allow and add context")


@pytest.mark.parametrize("name", ["claude-conversation-extractor", "cc-conversation-search"])
def test_searches_of_sessions(begin: Callable[[str], Program], name: str) -> None:
    program = begin(name)
    path, _ = program.hold_session()
    if name == "cc-conversation-search":
        program.run(program.command(name), "index", "--days", "2")
        assert path.stem in program.run(program.command(name), "search", "gold")
        program.enter("its index of sessions, and a search for a command")
        return
    program.run(program.command("claude-extract"), "--recent", "1", "--output", "out")
    (page,) = (program.work / "out").glob("*.md")
    assert all(text in page.read_text("utf-8") for text in ("Make it", "I make it.", "Once more."))
    program.enter("a session as Markdown")


def test_claude_code_to_sqlite(begin: Callable[[str], Program]) -> None:
    program = begin("claude-code-to-sqlite")
    path, _ = program.hold_session()
    program.run(program.command(program.name), "sessions", "db", str(path.parents[1]))
    stats = program.run(program.command(program.name), "stats", "db")
    assert "Sessions:  1" in stats
    assert "4  claude-sonnet-5-5" in stats
    program.enter("an import of all sessions, and its statistics")


def test_claude_code_mcp(begin: Callable[[str], Program]) -> None:
    """Other agents call clew as a tool. It skips permissions, which root may only in a sandbox."""
    program = begin("claude-code-mcp")
    program.environ |= {"CLAUDE_CLI_NAME": executable(), "IS_SANDBOX": "1"}
    given = {"prompt": "go", "workFolder": str(program.work)}
    params: list[tuple[str, Json]] = [
        ("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                        "clientInfo": {"name": "x", "version": "1"}}),
        ("tools/call", {"name": "claude_code", "arguments": given}),
    ]  # fmt: skip
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": at, "method": method, "params": held})
        for at, (method, held) in enumerate(params)
    ]
    with (
        serving(MAKES) as server,
        program.using(server),
        (program.home / "mcp.log").open("w", encoding="utf-8") as log,
        running(
            program, ["node", program.command("claude-code-mcp")], log,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
        ) as child,
    ):  # fmt: skip
        child.stdin.write("\n".join(lines) + "\n")
        child.stdin.flush()
        answers = [json.loads(child.stdout.readline()) for _ in lines]
    assert answers[-1]["result"]["content"] == [{"type": "text", "text": "It is done.\n"}]
    program.enter("its tool, which runs clew in a folder")
