"""The published readers read what clew writes: the same messages, the same tokens.

They are installed into a throwaway folder by their own package managers, as a person would.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import get_session_messages, get_subagent_messages, list_sessions

from clew.record.transcript.agent_record import AgentRecorder
from clew.record.transcript.load import load
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, uses
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.test_agents import agent_files
from tests.record.transcript.session import SESSION, USAGE, Session, call, text, uuids

pytestmark = pytest.mark.e2e

TURNS = 5
ANSWERS = 2 * TURNS


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Turns with calls in parallel and a subagent; each answer has the same usage."""
    session = Session(tmp_path_factory.mktemp("home"))
    recorder = session.recorder
    for n in range(TURNS):
        answer = session.answer(text("both"), call(f"a{n}"), call(f"b{n}"))
        results = [session.result(f"b{n}"), session.result(f"a{n}")]
        recorder.record([session.user(f"prompt {n}")])
        recorder.tool_started(f"a{n}", answer[:2])
        recorder.tool_started(f"b{n}", answer)
        recorder.tool_finished(f"b{n}", results[0])
        recorder.record([*answer, *results])
        recorder.record(session.answer(text("done")))
        recorder.cost_state(totalCostUSD=0.5)
        recorder.last_prompt(f"prompt {n}")
    recorder.title("What readers read")
    session.load()
    yield session
    session.close()


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readers")
    run([sys.executable, "-m", "venv", str(folder / "venv")])
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    run([*pip, "claude-code-log", "claude-code-transcripts"])
    run(["npm", "install", "--silent", "--prefix", str(folder / "npm"), "ccusage@18"])
    return folder


def run(command: list[str], **environ: str) -> bytes:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | environ
    return subprocess.run(command, env=env, capture_output=True, check=True, timeout=600).stdout


def test_the_sdk_lists_the_session_and_reads_every_message(
    written: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(written.paths.home))
    (info,) = list_sessions()
    assert (info.session_id, info.summary) == (SESSION, "What readers read")
    assert (info.first_prompt, info.cwd, info.git_branch) == ("prompt 0", "/w", "main")
    seen = get_session_messages(SESSION)
    assert sorted(m.uuid for m in seen) == sorted(uuids(load(written.recorder.transcript).messages))
    assert len(seen) == 7 * TURNS


def test_the_sdk_reads_a_subagent(written: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(written.paths.home))
    task = [written.user("look"), *written.answer(text("found"))]
    AgentRecorder(written.recorder, "agent1").record(task)
    written.load()
    seen = get_subagent_messages(SESSION, "agent1")
    assert [m.uuid for m in seen] == uuids(task)
    written.paths.agent("agent1").unlink()


def test_claude_code_log_reads_what_an_agent_said(tmp_path: Path, readers: Path) -> None:
    tells = {"tool": "SendMessage", "input": {"to": "main", "message": "soon"}}
    asked = {
        "go": [uses(agent("dig")), {"text": "done"}],
        "dig": [uses(tells), {"text": "I found gold."}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "go").returncode == 0
    (path,) = agent_files(tmp_path)
    assert b'"type":"queue-operation"' in path.read_bytes()
    python = str(readers / "venv" / "bin" / "python")
    assert int(run([python, "-c", CLAUDE_CODE_LOG, str(path)]).split()[-1]) == 4
    (whole,) = transcripts(tmp_path)
    shown = readers / "agents.html"
    run([str(readers / "venv" / "bin" / "claude-code-log"), str(whole), "-o", str(shown)])
    assert "I found gold." in shown.read_text("utf-8")


def test_ccusage_counts_each_answer_once(written: Session, readers: Path) -> None:
    program = str(readers / "npm" / "node_modules" / ".bin" / "ccusage")
    home = str(written.paths.home)
    told = json.loads(run([program, "session", "--json", "--offline"], CLAUDE_CONFIG_DIR=home))
    totals: dict[str, Any] = told["totals"]
    assert totals["inputTokens"] == ANSWERS * USAGE["input_tokens"]
    assert totals["outputTokens"] == ANSWERS * USAGE["output_tokens"]


def test_claude_code_log_shows_every_message_and_counts_each_answer_once(
    written: Session, readers: Path
) -> None:
    program = str(readers / "venv" / "bin" / "claude-code-log")
    target = readers / "out.json"
    run([program, str(written.recorder.transcript), "-o", str(target)])
    told = json.loads(target.read_bytes())
    session = told["sessions"][0]
    tokens = (
        f"Input: {ANSWERS * USAGE['input_tokens']} | Output: {ANSWERS * USAGE['output_tokens']}"
    )
    assert session["id"] == SESSION
    assert tokens in session["token_summary"]
    assert count_in(readers, CLAUDE_CODE_LOG, written) == 7 * TURNS


def test_claude_code_transcripts_reads_every_message(written: Session, readers: Path) -> None:
    assert count_in(readers, CLAUDE_CODE_TRANSCRIPTS, written) == 7 * TURNS


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which the program itself was used: calls side by side, an agent, a way on, a name."""
    home = tmp_path_factory.mktemp("lived")
    look = {"tool": "Bash", "input": {"command": "echo seen"}}
    asked = {
        "go": [
            {"content": [{"thinking": "Hm.", "signature": "s"}, "Both.", look, look]},
            uses(agent("dig")),
            {"text": "done"},
        ],
        "dig": [uses(look), {"text": "I found gold."}],
        "and on": [uses(look), {"text": "Again."}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        for words in (["go", "--name", "A day"], ["and on", "--continue"]):
            done = clew(home, server.url, "-p", *words, "--allowedTools", "Bash")
            assert done.returncode == 0, done.stderr
    return home


def told_of(home: Path, *kinds: str) -> list[dict[str, Any]]:
    files = [*transcripts(home), *agent_files(home)]
    entries = [json.loads(line) for path in files for line in path.read_bytes().splitlines()]
    return [entry for entry in entries if entry["type"] in kinds]


def test_ccusage_counts_what_the_programs_requests_took(lived: Path, readers: Path) -> None:
    program = str(readers / "npm" / "node_modules" / ".bin" / "ccusage")
    words = [program, "session", "--json", "--offline"]
    totals = json.loads(run(words, CLAUDE_CONFIG_DIR=str(lived / "config")))["totals"]
    costs = [cost["usage"] for cost in told_of(lived, "request-cost")]
    assert len(costs) == 7
    for theirs, ours in {
        "inputTokens": "input_tokens",
        "outputTokens": "output_tokens",
        "cacheReadTokens": "cache_read_input_tokens",
        "cacheCreationTokens": "cache_creation_input_tokens",
    }.items():
        assert totals[theirs] == sum(usage[ours] for usage in costs), theirs


def test_every_reader_has_every_message_that_the_program_wrote(
    lived: Path, readers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(lived / "config"))
    (path,) = transcripts(lived)
    (info,) = list_sessions()
    assert (info.session_id, info.summary, info.first_prompt) == (path.stem, "A day", "go")
    live = [m for m in load(path).messages if m["type"] in ("user", "assistant")]
    shown = [m["uuid"] for m in live if not m.get("isMeta")]
    assert [m.uuid for m in get_session_messages(path.stem)] == shown
    assert len(shown) == 14
    assert read_by(readers, CLAUDE_CODE_TRANSCRIPTS, path) == len(live)
    # This one reads the session's agents with it.
    (agents,) = agent_files(lived)
    of_agent = [m for m in load(agents).messages if m["type"] in ("user", "assistant")]
    assert read_by(readers, CLAUDE_CODE_LOG, path) == len(live) + len(of_agent)
    assert len(of_agent) == 4


CLAUDE_CODE_LOG = """
import sys, pathlib
from claude_code_log.converter import load_transcript
read = load_transcript(pathlib.Path(sys.argv[1]), silent=True)
sys.stdout.write(str(sum(entry.type in ("user", "assistant") for entry in read)))
"""
CLAUDE_CODE_TRANSCRIPTS = """
import sys
from claude_code_transcripts import parse_session_file
sys.stdout.write(str(len(parse_session_file(sys.argv[1])["loglines"])))
"""


def count_in(readers: Path, program: str, written: Session) -> int:
    return read_by(readers, program, written.recorder.transcript)


def read_by(readers: Path, program: str, path: Path) -> int:
    python = str(readers / "venv" / "bin" / "python")
    return int(run([python, "-c", program, str(path)]).split()[-1])
