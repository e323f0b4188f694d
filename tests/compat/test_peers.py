"""The published programs of other agents are the judges of imports and exports.

Each writes a session against a scripted service on this machine, which clew imports. Exports are
resumed in the programs that can, and the request that they send is read. Every other address is out
of reach. docs/extending/compatibility.md has the table of what was seen.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.record.transcript.load import load
from clew.testing.wires import WireService, serving_wire

CLEW = str(Path(sys.executable).parent / "clew")
UV = str(Path(sys.executable).parent / "uv")
TABLE = Path(__file__).parents[2] / "docs" / "extending" / "compatibility.md"
PACKAGES = {
    "codex": "@openai/codex@0.171.0",
    "opencode": "opencode-ai@1.18.33",
    "pi": "@mariozechner/pi-coding-agent@0.73.1",
    "gemini": "@google/gemini-cli@0.61.0",
    "qwen": "@qwen-code/qwen-code@0.24.4",
    "kimi": "kimi-cli==1.30.0",
    "vibe": "mistral-vibe==3.0.2",
}
PROMPT = "Look at it."
MODEL = {"id": "m", "name": "m", "reasoning": False, "input": ["text"], "contextWindow": 100000,
         "maxTokens": 1000, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}  # fmt: skip
pytestmark = pytest.mark.e2e


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def answers(tool: str, name: str = "command", **more: Any) -> list[Any]:
    """Thinking, a text and two parallel calls, then the end."""
    calls = [
        {"type": "tool_use", "id": f"call_{n}", "name": tool, "input": {name: f"echo {w}", **more}}
        for n, w in enumerate(("one", "two"), 1)
    ]
    thinking = {"type": "thinking", "thinking": "I should look."}
    return [[thinking, words("I look."), *calls], [words("Done.")], *[[words("x")]] * 4]


class Peer:
    """A program with a home folder and a working folder of its own."""

    def __init__(self, name: str, programs: Path, folder: Path) -> None:
        self.name = name
        self.home = folder / "person"
        self.work = folder / "work"
        self.config = folder / "clew"
        for made in (self.home, self.work):
            made.mkdir(parents=True)
        self.program = [str(programs / "node_modules" / ".bin" / name)]
        if "==" in PACKAGES[name]:
            self.program = [str(programs / "bin" / name)]
        nowhere = "http://127.0.0.1:9"
        self.environ = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "CI": "1",
            "CLEW_CONFIG_DIR": str(self.config), "HTTPS_PROXY": nowhere, "HTTP_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1,localhost", "PI_OFFLINE": "1", "KEY": "x",
            "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
        }  # fmt: skip

    def write(self, name: str, content: Any) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")

    def run(self, *args: str, **environ: str) -> str:
        done = subprocess.run(
            [*self.program, *args], cwd=self.work, env=self.environ | environ,
            encoding="utf-8", capture_output=True, stdin=subprocess.DEVNULL, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def clew(self, *args: str) -> Any:
        done = subprocess.run(
            [CLEW, *args], cwd=self.work, env=self.environ, capture_output=True,
            encoding="utf-8", timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def begin_codex(peer: Peer, url: str) -> Callable[..., str]:
    provider = f'name="x"\nbase_url="{url}/v1"\nwire_api="responses"\nenv_key="KEY"\n'
    peer.write(
        ".codex/config.toml",
        f'model="gpt-5"\nmodel_provider="x"\n[model_providers.x]\n{provider}',
    )
    flags = ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    return lambda *args: peer.run(*flags, *args)


def begin_opencode(peer: Peer, url: str) -> Callable[..., str]:
    options = {"baseURL": f"{url}/v1", "apiKey": "x"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "x", "options": options,
                "models": {"m": {"name": "m"}}}  # fmt: skip
    settings = {"provider": {"x": provider}, "model": "x/m", "permission": "allow"}
    peer.write(".config/opencode/opencode.json", settings)
    # Without a title, the program asks the model for one.
    return lambda *args: peer.run("run", "--title", "x", "--model", "x/m", *args)


def begin_pi(peer: Peer, url: str) -> Callable[..., str]:
    provider = {"baseUrl": f"{url}/v1", "apiKey": "x", "api": "openai-completions",
                "models": [MODEL]}  # fmt: skip
    peer.write(".pi/agent/models.json", {"providers": {"x": provider}})
    return lambda *args: peer.run("-p", "--provider", "x", "--model", "m", *args)


def begin_gemini(peer: Peer, url: str) -> Callable[..., str]:
    auth = {"auth": {"selectedType": "gemini-api-key"}}
    peer.write(".gemini/settings.json", {"security": auth})
    own = {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": url,
           "GEMINI_CLI_TRUST_WORKSPACE": "true"}  # fmt: skip
    return lambda *args: peer.run("-m", "gemini-2.5-pro", "--yolo", "-p", *args, **own)


def begin_qwen(peer: Peer, url: str) -> Callable[..., str]:
    peer.write(".qwen/settings.json", {"security": {"auth": {"selectedType": "openai"}}})
    own = {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "m"}
    # It would send requests to this machine through a proxy too.
    peer.environ = {k: v for k, v in peer.environ.items() if not k.endswith("_PROXY")}
    return lambda *args: peer.run("--yolo", "--auth-type", "openai", "-p", *args, **own)


def begin_kimi(peer: Peer, url: str) -> Callable[..., str]:
    provider = f'[providers.p]\ntype="openai_legacy"\nbase_url="{url}/v1"\napi_key="x"\n'
    model = '[models.m]\nprovider="p"\nmodel="m"\nmax_context_size=100000\n'
    peer.write(".kimi/config.toml", f'default_model="m"\n{model}{provider}')
    return lambda *args: peer.run("--print", "-c", *args)


def begin_vibe(peer: Peer, url: str) -> Callable[..., str]:
    provider = f'name="p"\napi_base="{url}/v1"\napi_key_env_var="KEY"\nbackend="generic"\n'
    peer.write(
        ".vibe/config.toml",
        'active_model="m"\nenable_telemetry=false\nenable_update_checks=false\n'
        f'[[providers]]\n{provider}[[models]]\nname="m"\nprovider="p"\nalias="m"\n',
    )
    return lambda *args: peer.run("-p", *args, MISTRAL_API_KEY="x")


Begin = Callable[[Peer, str], Callable[..., str]]
# name -> (wire, tool, its parameter, how it begins)
AGENTS: dict[str, tuple[str, list[Any], Begin]] = {
    "codex": ("responses", answers("exec_command", "cmd"), begin_codex),
    "opencode": ("chat", answers("bash", description="x"), begin_opencode),
    "pi": ("chat", answers("bash"), begin_pi),
    "gemini": ("gemini", answers("run_shell_command"), begin_gemini),
    "qwen": ("chat", answers("run_shell_command", is_background=False), begin_qwen),
    "kimi": ("chat", answers("Shell"), begin_kimi),
    "vibe": ("chat", answers("bash"), begin_vibe),
}


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the other agents; `install` adds one when a test needs it."""
    return Path(os.environ.get("PEERS") or tmp_path_factory.mktemp("programs"))


def install(name: str, folder: Path) -> None:
    """Installs an agent unless an earlier run with PEERS did. Two of them need Python 3.13."""
    done = folder / f"{name}.installed"
    if done.exists():
        return
    folder.mkdir(exist_ok=True)
    if "==" in PACKAGES[name]:
        words = [UV, "tool", "install", "--quiet", "--python", ">=3.13,<3.14", PACKAGES[name]]
        places = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
        subprocess.run(words, check=True, timeout=900, env=os.environ | places)
    else:
        npm = shutil.which("npm")
        assert npm is not None, "npm is needed to install the other agents"
        words = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([*words, PACKAGES[name]], check=True, timeout=900)
    done.touch()


def outline(path: Path) -> list[str]:
    found = []
    for message in load(path).messages:
        content = message["message"]["content"]
        blocks = [words(content)] if isinstance(content, str) else content
        if not message.get("isMeta"):
            found += [f"{message['type']} {block['type']}" for block in blocks]
    return found


@pytest.mark.parametrize("name", AGENTS)
def test_what_an_agent_wrote_is_imported(name: str, programs: Path, tmp_path: Path) -> None:
    install(name, programs)
    wire, scripted, begin = AGENTS[name]
    peer = Peer(name, programs, tmp_path)
    with serving_wire(wire, *scripted) as service:
        begin(peer, service.url)(PROMPT)
    found = json.loads(peer.clew("sessions", "import", "--all", "--json"))[name]
    (session,) = found["imported"]
    assert found["refused"] == []
    shown = outline(Path(session["path"]))
    assert shown.count("assistant tool_use") == 2
    assert shown.count("user tool_result") == 2
    assert shown[0] == "user text"
    assert shown[-1] == "assistant text"
    assert shown.count("assistant text") == 2
    text = Path(session["path"]).read_text("utf-8")
    for said in (PROMPT, "I look.", "Done.", "echo one", "echo two"):
        assert said in text
    thinking = "yes" if "I shoul" in text else "no"
    peer.clew("sessions", "check", session["sessionId"])
    again = json.loads(peer.clew("sessions", "import", "--all", "--json"))[name]
    assert (again["imported"], again["alreadyHere"]) == ([], 1)
    row = (
        f"| {name} | {PACKAGES[name].rpartition('@')[2].rpartition('==')[2]} "
        f"| {session['items']} | {session['kept']} | {thinking} |"
    )
    assert row in TABLE.read_text("utf-8"), row


def assert_paired(service: WireService, wire: str) -> None:
    """Assert that the request has the whole conversation, each call with its result."""
    body = next(body for body in service.requests if "Go on." in json.dumps(body))
    told = json.dumps(body)
    for said in (PROMPT, "I look.", "Done."):
        assert said in told
    if wire == "gemini":
        parts = [part for content in body["contents"] for part in content["parts"]]
        calls = [part["functionCall"]["id"] for part in parts if "functionCall" in part]
        results = [p["functionResponse"]["id"] for p in parts if "functionResponse" in p]
    elif wire == "responses":
        calls = [i["call_id"] for i in body["input"] if i["type"] == "function_call"]
        results = [i["call_id"] for i in body["input"] if i["type"] == "function_call_output"]
    else:
        calls = [c["id"] for m in body["messages"] for c in m.get("tool_calls") or []]
        results = [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"]
    assert len(calls) == 2
    assert calls == results


def read_message(message: dict[str, Any], key: str) -> Any:
    """Return the UUID of a message, or its content."""
    return message["uuid"] if key == "uuid" else message["message"]["content"]


@pytest.mark.parametrize("name", AGENTS)
def test_an_export_continues_in_its_agent_and_comes_back(
    name: str, programs: Path, tmp_path: Path
) -> None:
    install(name, programs)
    wire, scripted, begin = AGENTS[name]
    with serving_wire(wire, *scripted) as service:
        first = Peer(name, programs, tmp_path / "first")
        begin(first, service.url)(PROMPT)
    found = json.loads(first.clew("sessions", "import", "--all", "--json"))[name]
    (session,) = found["imported"]
    second = Peer(name, programs, tmp_path / "second")
    second.config = first.config
    second.environ["CLEW_CONFIG_DIR"] = str(first.config)
    second.work = first.work
    command = second.clew("handover", name, session["sessionId"]).strip()
    with serving_wire(wire, [words("Going on.")], *[[words("x")]] * 3) as service:
        go_on = begin(second, service.url)
        if name == "codex":
            assert "Going on." in go_on("resume", command.rpartition(" ")[2], "Go on.")
        elif name == "pi":
            assert "Going on." in go_on("--session", command.rpartition(" ")[2], "Go on.")
        elif name == "kimi":
            own = command.rpartition(" ")[2]
            assert "Going on." in second.run("--print", "--session", own, "-c", "Go on.")
        elif name in ("gemini", "qwen", "vibe"):
            assert "Going on." in go_on("Go on.", "--resume", command.rpartition(" ")[2])
        else:
            way = command.rpartition("&& opencode import ")[2].partition(" && ")
            second.run("import", way[0])
            assert way[2].rpartition(" ")[2] in second.run("session", "list")
            go_on("--session", way[2].rpartition(" ")[2], "Go on.")
        assert_paired(service, wire)
    back = json.loads(second.clew("sessions", "import", "--all", "--json"))[name]
    assert back["refused"] == []
    # Mistral Vibe continues a copy, which does not have the ID of the export.
    *exported, returned = back["imported"]
    assert len(exported) == (name == "vibe")
    before, after = (load(Path(s["path"])).messages for s in (session, returned))
    key = "uuid" if name != "vibe" else "message"
    known = [read_message(message, key) for message in before]
    assert [read_message(message, key) for message in after[: len(known)]] == known
    assert "Going on." in json.dumps(after[len(known) :])
