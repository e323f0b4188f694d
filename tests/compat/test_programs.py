"""Published programs that read clew's sessions or drive clew, unchanged.

`make compat` runs these tests, each against a scripted service, where no other machine can be
reached. programs.py has the versions, and what each test drives.
"""

import contextlib
import json
import os
import pty
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from signal import SIGTERM
from typing import IO, Any

import httpx2
import pyte
import pytest

from clew.testing.server import serving
from tests.compat.programs import MAKES, Json, Program, drives
from tests.compat.sdk_plugin import executable
from tests.fronts.headless.clew_process import until
from tests.fronts.terminal.screen import COLUMNS, PLAIN, ROWS, Glass, OnScreen

NOWHERE = "http://127.0.0.1:9"
pytestmark = [pytest.mark.e2e, pytest.mark.compat]


# -- programs that read sessions


@drives("ccusage 18", "ccusage 20")
def test_ccusage(program: Program) -> None:
    _, result = program.hold_session()
    report = json.loads(program.run(program.command("ccusage"), "daily", "--json", "--offline"))
    totals = report["totals"]
    assert totals["inputTokens"] == 300
    assert totals["totalCost"] == pytest.approx(result["total_cost_usd"])


@drives("claude-monitor")
def test_claude_monitor(program: Program) -> None:
    _, result = program.hold_session()
    words = ("--view", "daily", "--output", "json", "--once")
    report = json.loads(program.run(program.command("claude-monitor"), *words))
    spent = sum(
        model["inputTokens"] + model["outputTokens"] for model in result["modelUsage"].values()
    )
    assert report["limits"]["five_hour"]["tokens_used"] >= spent > 0


@drives("claude-code-log", "claude-code-transcripts")
def test_pages_of_a_session(program: Program) -> None:
    name = program.name
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


@drives("claude-code-tools")
def test_claude_code_tools(program: Program) -> None:
    path, _ = program.hold_session()
    text = program.home / "session.txt"
    program.run(program.command("aichat"), "export", str(path), "--output", str(text))
    assert "Bash(mkdir gold)" in text.read_text("utf-8")
    assert path.stem in program.run(program.command("aichat"), "info", str(path))


def responds(client: httpx2.Client, path: str) -> bool:
    try:
        return client.get(path).status_code == 200
    except httpx2.TransportError:
        return False


@drives("sniffly")
def test_sniffly(program: Program, tmp_path: Path) -> None:
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


@drives("ccstatusline")
def test_ccstatusline(program: Program) -> None:
    shows_line(program, program.command("ccstatusline"), "Ctx", "Sonnet")


def shows_line(program: Program, command: str, *words: str) -> None:
    """Assert that a status line is on the screen below the prompt, with these words."""
    (program.home / ".claude" / "settings.json").write_text(
        json.dumps({"statusLine": {"type": "command", "command": command}}), "utf-8"
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
        for word in words:
            screen.expect(word)


# -- programs that drive clew


@drives("claude-agent-acp")
def test_claude_agent_acp(program: Program, tmp_path: Path) -> None:
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


@drives("ai-sdk-provider-claude-code")
def test_ai_sdk_provider(program: Program) -> None:
    program.environ["FOLDER"] = str(program.folder)
    with serving(MAKES) as server, program.using(server):
        seen = json.loads(program.run("node", "--input-type=module", "-e", AI_SDK))
    assert [part["type"] for part in seen["content"]][-2:] == ["tool-result", "text"]
    assert seen["content"][-1]["text"] == "It is done."
    assert seen["usage"]["inputTokens"]["total"] == 200
    assert seen["streamed"] == "Once more."


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


@drives("openinference")
def test_openinference(program: Program) -> None:
    with serving(MAKES) as server, program.using(server):
        spans = json.loads(program.run(program.command("python"), "-c", OPENINFERENCE))
    assert spans.pop("Bash")["tool.parameters"] == '{"command": "mkdir gold"}'
    (agent,) = spans.values()
    assert (agent["output.value"], agent["llm.token_count.prompt"]) == ("It is done.", 200)


@drives("mlflow")
def test_mlflow(program: Program) -> None:
    with serving(MAKES) as server, program.using(server):
        said = program.run(program.command("python"), "-c", MLFLOW).splitlines()[-1]
    names, usage = json.loads(said)
    assert "tool_Bash" in names
    assert usage["input_tokens"] == 200


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


@drives("inspect-swe")
def test_inspect_swe(program: Program) -> None:
    (program.home / "bin").mkdir()
    (program.home / "bin" / "claude").symlink_to(executable())
    program.environ["PATH"] = f"{program.home / 'bin'}:{program.environ['PATH']}"
    said = program.run(program.command("python"), "-c", INSPECT).splitlines()[-1]
    status, roles, last = json.loads(said)
    assert (status, last) == ("success", "It is done.")
    assert roles[-3:] == ["assistant", "tool", "assistant"]


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


@drives("happy")
def test_happy(program: Program) -> None:
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


REMEMBERED = {
    "observation": "<observation><type>discovery</type><title>Gold is made</title>"
    "<narrative>A folder.</narrative></observation>",
    "summary": "<summary><request>Make gold</request><completed>It is made</completed></summary>",
}


@drives("claude-mem")
def test_claude_mem(program: Program) -> None:
    """Its hooks start a server that outlives clew, and that asks clew what to remember."""
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


def remembered(home: Path, table: str, column: str) -> list[str]:
    with contextlib.closing(sqlite3.connect(home / "claude-mem.db")) as database:
        rows = database.execute(f"select distinct {column} from {table}").fetchall()
    return [value for (value,) in rows]


# -- programs that nobody here wrote, which drive clew under the name `claude`


def under_the_name_claude(program: Program) -> None:
    (program.home / "bin").mkdir()
    (program.home / "bin" / "claude").symlink_to(executable())
    program.environ["PATH"] = f"{program.home / 'bin'}:{program.environ['PATH']}"


@drives("tdd-guard")
def test_tdd_guard(program: Program) -> None:
    """Its hook asks clew, with 60 lines on standard input and without --print."""
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


@drives("claude-code-langchain")
def test_langchain(program: Program) -> None:
    calls = [("mcp__langchain__weather", {"city": "Rome"}), ("StructuredOutput", BOB)]
    answers: list[Json] = [{"text": "Plain."}, {"text": "One two."}]
    answers += [{"content": [{"tool": name, "input": given}]} for name, given in calls]
    with serving({"scenario": 1, "answers": answers}) as server, program.using(server):
        said = program.run(program.command("python"), "-c", LANGCHAIN).splitlines()
    assert said == ["Plain.", "One two.", "{'city': 'Rome'}", "name='Bob' age=42"]


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


@drives("agent-framework-claude")
def test_agent_framework(program: Program) -> None:
    program.environ["CLAUDE_AGENT_CLI_PATH"] = executable()
    with serving(MAKES) as server, program.using(server):
        said = program.run(program.command("python"), "-c", FRAMEWORK).splitlines()
    assert said == ["I make it.It is done. 200", "Once more."]


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


@drives("claude-code-sdk")
def test_the_first_sdk(program: Program) -> None:
    under_the_name_claude(program)
    with serving(MAKES) as server, program.using(server):
        said = program.run(program.command("python"), "-c", FIRST_SDK).splitlines()
    assert said == ["Bash {'command': 'mkdir gold'}", "It is done.", "Once more."]


STARTS = {
    "claude-max-api-proxy": ("node", "node_modules/claude-max-api-proxy/dist/server/standalone.js"),
    "claude-code-openai": ("bin/claudegate", "serve", "--port"),
}


@drives("claude-max-api-proxy", "claude-code-openai")
def test_chat_completions(program: Program, tmp_path: Path) -> None:
    under_the_name_claude(program)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = [str(program.folder / w) if "/" in w else w for w in STARTS[program.name]]
    start = [*words, port]
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


@drives("claude-code-acp")
def test_the_earlier_acp_adapter(program: Program, tmp_path: Path) -> None:
    """It selects the first model of the handshake's list."""
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


@drives("agent-client-protocol")
def test_acp_from_python(program: Program) -> None:
    with serving(MAKES) as server, program.using(server):
        said = program.run(program.command("python"), "-c", ACP).splitlines()
    assert said == ["Bash: mkdir gold", "end_turn I make it.It is done.", "['go']"]


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


@drives("cchooks")
def test_cchooks(program: Program) -> None:
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


@drives("claude-conversation-extractor", "cc-conversation-search")
def test_searches_of_sessions(program: Program) -> None:
    name = program.name
    path, _ = program.hold_session()
    if name == "cc-conversation-search":
        program.run(program.command(name), "index", "--days", "2")
        assert path.stem in program.run(program.command(name), "search", "gold")
        return
    program.run(program.command("claude-extract"), "--recent", "1", "--output", "out")
    (page,) = (program.work / "out").glob("*.md")
    assert all(text in page.read_text("utf-8") for text in ("Make it", "I make it.", "Once more."))


@drives("claude-code-to-sqlite")
def test_claude_code_to_sqlite(program: Program) -> None:
    path, _ = program.hold_session()
    program.run(program.command(program.name), "sessions", "db", str(path.parents[1]))
    stats = program.run(program.command(program.name), "stats", "db")
    assert "Sessions:  1" in stats
    assert "4  claude-sonnet-5-5" in stats


@drives("claude-code-mcp")
def test_claude_code_mcp(program: Program) -> None:
    """Other agents call clew as a tool. It skips permissions, which root may only in a sandbox."""
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


FLUENT = """
import { createRequire } from 'module';
const require = createRequire(process.env.FOLDER + '/x.js');
const { claude, query } = await import(require.resolve('@instantlyeasy/claude-code-sdk-ts'));
const options = { cwd: process.env.WORK, allowedTools: ['Bash'], permissionMode: 'default' };
const kinds = [];
for await (const message of query('go', options)) kinds.push(message.type);
const text = await claude().inDirectory(process.env.WORK).query('more').asText();
console.log(JSON.stringify({ kinds, text }));
"""


@drives("claude-code-sdk-ts")
def test_a_fluent_sdk(program: Program) -> None:
    program.environ["FOLDER"] = str(program.folder)
    under_the_name_claude(program)
    with serving(MAKES) as server, program.using(server):
        said = program.run("node", "--input-type=module", "-e", FLUENT)
    seen = json.loads(said.splitlines()[-1])
    assert seen["text"] == "Once more."
    assert seen["kinds"][-1] == "result"
    assert (program.work / "gold").is_dir()


@drives("ralphy-cli")
def test_ralphy(program: Program) -> None:
    """It skips permissions, which root may only in a sandbox."""
    program.environ["IS_SANDBOX"] = "1"
    under_the_name_claude(program)
    program.run("git", "init", "--quiet")
    with serving(MAKES) as server, program.using(server):
        said = program.run(program.command("ralphy"), "--no-tests", "--no-lint", "make gold")
        told = json.dumps(server.requests[0].body["messages"])
    assert "make gold" in told
    assert "It is done." in said
    assert (program.work / "gold").is_dir()


@drives("ccundo")
def test_ccundo(program: Program) -> None:
    path = program.work / "a.txt"
    write = {"tool": "Write", "input": {"file_path": str(path), "content": "one"}}
    answers = {"scenario": 1, "answers": [{"content": [write]}, {"text": "It is written."}]}
    with serving(answers) as server, program.using(server):
        program.run(executable(), "-p", "go", "--permission-mode", "acceptEdits")
    assert path.read_text("utf-8") == "one"
    shown = program.run(program.command("ccundo"), "list")
    assert "file_create" in shown
    assert str(path) in shown
    program.run(program.command("ccundo"), "undo", "--yes", "toolu_002_0001_00")
    assert not path.exists()


@drives("claude-run")
def test_claude_run(program: Program, tmp_path: Path) -> None:
    """It lists the sessions of the prompt history, which prompts in the terminal are in."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environ = program.environ | {"CLEW_CONFIG_DIR": str(program.home / ".claude")}
    with (
        serving(MAKES) as server,
        OnScreen(program.home, server.url, "--allowedTools", "Bash", env=environ) as screen,
    ):
        screen.type("make gold\r")
        screen.expect("It is done.")
    (path,) = (program.home / ".claude" / "projects").glob("*/*.jsonl")
    words = [program.command("claude-run"), "--port", port, "--no-open"]
    with (
        (tmp_path / "run.log").open("w", encoding="utf-8") as log,
        running(program, words, log),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}/api", trust_env=False) as client,
    ):
        until(lambda: responds(client, "/sessions"), within_s=60)
        (listed,) = client.get("/sessions").json()
        told = json.dumps(client.get(f"/conversation/{listed['id']}").json())
    assert (listed["display"], listed["id"]) == ("make gold", path.stem)
    assert "mkdir gold" in told
    assert "It is done." in told


@drives("cc-statistics")
def test_cc_statistics(program: Program) -> None:
    path, _ = program.hold_session()
    shown = program.run(program.command("cc-stats"), str(path))
    assert "Bash" in shown
    assert "300" in shown


@drives("cc-context-stats")
def test_cc_context_stats(program: Program) -> None:
    shows_line(program, program.command("claude-statusline"), "work")


@drives("claude-historian-mcp")
def test_claude_historian(program: Program) -> None:
    """clew starts it as an MCP server, and the model calls its tools."""
    path, _ = program.hold_session()
    server_of = {"command": "node", "args": [program.command(program.name)]}
    config = json.dumps({"mcpServers": {"historian": server_of}})
    recent = {"tool": "mcp__historian__list_recent_sessions", "input": {}}
    answers = {"scenario": 1, "answers": [{"content": [recent]}, {"text": "Found."}]}
    with serving(answers) as server, program.using(server):
        program.run(
            executable(), "-p", "list", "--mcp-config", config, "--allowedTools", "mcp__historian"
        )
        told = json.dumps(server.requests[-1].body["messages"])
    assert path.stem[:8] in told.rpartition("tool_result")[2], told[-2000:]


DETECTOR = """
import { createRequire } from 'module';
import { readFileSync } from 'fs';
const require = createRequire(process.env.FOLDER + '/x.js');
const { Terminal } = require('@xterm/headless');
const folder = process.env.FOLDER + '/node_modules/ccmanager/dist/services/stateDetector/';
const { createStateDetector } = await import(folder + 'index.js');
const states = [];
for (const name of process.argv.slice(1)) {
  const terminal = new Terminal({ cols: 80, rows: 24, allowProposedApi: true });
  await new Promise((done) => terminal.write(readFileSync(name), done));
  states.push(createStateDetector('claude').detectState(terminal, 'unknown'));
}
console.log(JSON.stringify(states));
"""


@drives("ccmanager")
def test_ccmanager(program: Program) -> None:
    """Its detector gets clew's screens as they are written to a terminal."""
    program.environ["FOLDER"] = str(program.folder)
    question = {"question": "Which?", "header": "W", "multiSelect": False}
    question["options"] = [{"label": name, "description": name} for name in ("A", "B")]
    plan = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Bash", "input": {"command": "mkdir gold"}}]},
            {"content": [{"tool": "AskUserQuestion", "input": {"questions": [question]}}]},
            {"text": "Done.", "faults": [{"at": "headers", "stall_s": "forever"}]},
        ],
    }
    raw: list[str] = []

    def keep(screen: OnScreen) -> None:
        screen.settle()
        path = program.home / f"screen-{len(raw)}"
        path.write_bytes(screen.raw)
        raw.append(str(path))

    with serving(plan) as server, OnScreen(program.home, server.url) as screen:
        screen.type("go\r")
        screen.expect("Run this command?")
        keep(screen)
        screen.type("y")
        screen.expect("Which?")
        keep(screen)
        screen.type("\r")
        screen.expect("esc to interrupt")
        keep(screen)
    said = program.run("node", "--input-type=module", "-e", DETECTOR, *raw)
    assert json.loads(said) == ["waiting_input", "waiting_input", "busy"]
