"""Several services in one session: names, keys, custom services, and the first turn without a question."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.core.catalog.services import ROWS
from clew.testing.server import serving
from clew.testing.wires import WireService, serving_wire
from tests.fronts.headless.clew_process import clew, command, environment, transcripts
from tests.requirements import requirement

OPENAI_KEY, GEMINI_KEY, CLAUDE_KEY = "sk-openai-0123456789", "gemini-0123456789", "sk-ant-test-0000"
CALL = [{"type": "tool_use", "id": "call_a1", "name": "Read", "input": {"file_path": "a.txt"}}]


def words(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def run(
    home: Path, environ: dict[str, str], *args: str, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run clew without any key or address except those in `environ`."""
    work = home / "work"
    work.mkdir(exist_ok=True)
    (work / "a.txt").write_text("alpha\n", "utf-8")
    bare = {k: v for k, v in environment(home, "").items() if not k.startswith("ANTHROPIC_")}
    return subprocess.run(
        command(*args),
        cwd=work,
        env=bare | environ,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        **({"stdin": subprocess.DEVNULL} | more if "input" not in more else more),
    )


def of_openai(service: WireService) -> dict[str, str]:
    return {"OPENAI_API_KEY": OPENAI_KEY, "OPENAI_BASE_URL": f"{service.url}/v1"}


def everything(service: WireService) -> str:
    return json.dumps([service.headers, service.requests, service.paths])


def test_the_key_of_one_service_is_enough(tmp_path: Path) -> None:
    with serving_wire("responses", CALL, words("It says alpha.")) as service:
        done = run(tmp_path, of_openai(service), "-p", "read a.txt", "--output-format", "json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["result"] == "It says alpha."
        assert result["total_cost_usd"] > 0
        assert {body["model"] for body in service.requests} == {"gpt-6.1-sol"}
        assert "alpha" in json.dumps(service.requests[1])
        assert {h["authorization"] for h in service.headers} == {f"Bearer {OPENAI_KEY}"}


def test_a_server_on_this_machine_is_enough(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [
        {"when": {"tool_result": "Read"}, "text": "It says alpha."},
        {"when": {"has_tool": "Read"}, "content": [
            {"tool": "Read", "input": {"file_path": "a.txt"}},
        ]},
    ]}  # fmt: skip
    with serving(plan) as server:
        environ = {"OLLAMA_HOST": server.url.removeprefix("http://")}
        done = run(tmp_path, environ, "-p", "read a.txt")
    assert done.stdout == "It says alpha.\n", done.stderr
    assert "ollama/" in transcripts(tmp_path)[0].read_text("utf-8")


@requirement("R298")
def test_several_services_answer_in_one_session_and_each_sees_only_its_own_key(
    tmp_path: Path,
) -> None:
    agent = {"helper": {"description": "helps", "prompt": "Help.", "model": "google/gemini-3-pro"}}
    delegate = {"description": "help", "prompt": "go", "subagent_type": "helper"}
    plan = {"scenario": 1, "answers": [
        {"content": [{"tool": "Agent", "input": delegate}]},
        {"status": 529, "headers": {"retry-after-ms": "1"}, "times": "always"},
    ]}  # fmt: skip
    with (
        serving(plan) as server,
        serving_wire("responses", words("From OpenAI.")) as openai,
        serving_wire("gemini", words("From Gemini.")) as gemini,
    ):
        google = {"like": "gemini", "url": gemini.url, "key": "env:MY_GEMINI"}
        environ = {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": CLAUDE_KEY,
            "MY_GEMINI": GEMINI_KEY,
            **of_openai(openai),
        }
        settings = json.dumps({"services": {"google": google}})
        done = run(
            tmp_path, environ, "-p", "go", "--settings", settings, "--agents", json.dumps(agent),
            "--fallback-model", "openai/gpt-6-luna", "--output-format", "json",
        )  # fmt: skip
        assert json.loads(done.stdout)["result"] == "From OpenAI.", done.stderr
        claude = json.dumps([[r.headers, r.body] for r in server.requests])
        assert "From Gemini." in claude
        assert [body["model"] for body in openai.requests] == ["gpt-6-luna"]
        assert "gemini-3-pro" in gemini.paths[0]
        keys = {"claude": CLAUDE_KEY, "openai": OPENAI_KEY, "google": GEMINI_KEY}
        seen = {"openai": everything(openai), "google": everything(gemini)}
        seen["claude"] = json.dumps([r.body for r in server.requests])
        for name, text in seen.items():
            assert [key for other, key in keys.items() if other != name and key in text] == []
        assert OPENAI_KEY not in claude
        assert GEMINI_KEY not in claude
    usage = json.loads(done.stdout)["modelUsage"]
    assert "openai/gpt-6-sol" in usage, "the cost is counted under the full name"


def test_a_session_continues_with_another_service_and_comes_back(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Claude here."}]}
    with serving(plan) as server, serving_wire("responses", words("One."), words("Two.")) as openai:
        environ = of_openai(openai) | {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": CLAUDE_KEY,
        }
        done = run(tmp_path, environ, "-p", "hi", "--model", "openai/gpt-6-sol")
        assert done.stdout == "One.\n", done.stderr
        assert run(tmp_path, environ, "-p", "you", "--continue", "--model", "opus").returncode == 0
        assert server.requests[0].body["model"] == "claude-opus-5-5"
        assert "One." in json.dumps(server.requests[0].body)
        again = run(tmp_path, environ, "-p", "x", "--continue", "--model", "openai/gpt-6-sol")
        assert again.stdout == "Two.\n", again.stderr
        first, second = openai.requests
        assert second["input"][: len(first["input"])] == first["input"]
        assert "Claude here." in json.dumps(second)
        # A resumed session goes on with the service that it used last.
        assert run(tmp_path, environ, "-p", "x", "--continue").returncode == 1
        assert len(openai.requests) == 3


def test_what_is_missing_or_wrong_is_said(tmp_path: Path) -> None:
    done = run(tmp_path, {}, "-p", "hi", "--model", "openai/gpt-6-sol")
    assert "run `clew login openai` or set OPENAI_API_KEY" in done.stdout + done.stderr
    done = run(tmp_path, {}, "-p", "hi", "--model", "azure/gpt-6-sol")
    assert "AZURE_OPENAI_RESOURCE" in done.stdout + done.stderr
    wrong = {
        "a": {"like": "nobody"},
        "b": {"like": "openai", "key": "sk-secret"},
        "c/d": {"like": "openai"},
    }
    settings = json.dumps({"services": wrong})
    done = run(tmp_path, {}, "-p", "hi", "--settings", settings)
    assert 'services.a: like: unknown service "nobody"' in done.stderr
    assert 'services.b: key: must be "env:NAME"' in done.stderr
    assert "services.c/d: invalid service name" in done.stderr
    assert "sk-secret" not in done.stderr


def test_a_saved_key_belongs_to_one_service(tmp_path: Path) -> None:
    for name, key in (("openai", OPENAI_KEY), ("mistral", "mistral-0123456789")):
        saved = run(tmp_path, {}, "login", name, input=key)
        assert saved.returncode == 0, saved.stderr
        assert key not in saved.stdout
    assert run(tmp_path, {}, "login", "nobody", input="x").returncode == 2
    with serving_wire("responses", words("Hi.")) as service:
        done = run(tmp_path, {"OPENAI_BASE_URL": f"{service.url}/v1"}, "-p", "hi")
        assert done.stdout == "Hi.\n", done.stderr
        assert {h["authorization"] for h in service.headers} == {f"Bearer {OPENAI_KEY}"}
        assert "mistral-0123456789" not in everything(service)
    assert "deleted" in run(tmp_path, {}, "logout", "openai").stdout
    assert "no saved" in run(tmp_path, {}, "logout", "openai").stdout
    kept = json.loads((tmp_path / "config" / "clew" / "credentials.json").read_text("utf-8"))
    assert list(kept["services"]) == ["mistral"]


def test_an_agent_that_names_a_claude_model_works_without_its_key(tmp_path: Path) -> None:
    agent = {"helper": {"description": "helps", "prompt": "Help.", "model": "sonnet"}}
    delegate = {"description": "help", "prompt": "go", "subagent_type": "helper"}
    call = [{"type": "tool_use", "id": "call_a1", "name": "Agent", "input": delegate}]
    with serving_wire("responses", call, words("Helped."), words("Done.")) as service:
        agents = json.dumps(agent)
        done = run(tmp_path, of_openai(service), "-p", "go", "--agents", agents)
        assert done.stdout == "Done.\n", done.stderr
        assert {body["model"] for body in service.requests} == {"gpt-6.1-sol"}


@pytest.mark.parametrize("wire", ["chat", "gemini"])
def test_a_service_of_ones_own_inherits_from_another(tmp_path: Path, wire: str) -> None:
    like = {"chat": "mistral", "gemini": "gemini"}[wire]
    with serving_wire(wire, words("Hi.")) as service:
        mine = {"like": like, "url": service.url, "key": "env:MINE", "model": "mine-1"}
        settings = json.dumps({"services": {"work": mine}})
        environ = {"MINE": "key-0123456789"}
        done = run(tmp_path, environ, "-p", "hi", "--settings", settings)
        assert done.stdout == "Hi.\n", done.stderr
        (headers,) = service.headers
        if wire == "chat":
            assert headers["authorization"] == "Bearer key-0123456789"
            assert "stream_options" not in service.requests[0], "as the service that it is like"
        else:
            assert headers["x-goog-api-key"] == "key-0123456789"


def test_models_lists_what_keys_and_local_servers_offer(tmp_path: Path) -> None:
    with serving({"scenario": 1, "answers": []}) as server:
        environ = {
            "OLLAMA_HOST": server.url.removeprefix("http://"),
            "OPENAI_API_KEY": OPENAI_KEY,
            "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        }
        listed = run(tmp_path, environ, "models", "--json")
        rows = {row["name"]: row for row in json.loads(listed.stdout)}
        assert rows["openai/gpt-6-sol"]["inputPrice"] == 2
        assert rows["openai/gpt-6-sol"]["contextWindow"] == 922_000
        assert any(name.startswith("ollama/") for name in rows)
        shown = run(tmp_path, environ, "models", "gpt-6-sol").stdout
        assert "openai/gpt-6-sol" in shown
        assert "922k context" in shown
        assert "claude" not in shown
    assert "No service has a key" in run(tmp_path, {}, "models").stdout


def test_models_lists_the_newest_first_and_the_others_only_on_request(tmp_path: Path) -> None:
    # No service answers, so the lists are those of clew's table.
    nowhere = {"OPENAI_API_KEY": OPENAI_KEY, "OPENROUTER_API_KEY": "sk-or-0123456789"}
    nowhere |= {"HTTPS_PROXY": "http://127.0.0.1:9", "OLLAMA_HOST": "127.0.0.1:9"}

    def names(*words: str) -> list[str]:
        printed = run(tmp_path, nowhere, "models", *words).stdout
        return re.findall(r"^  (\S+/\S+)", printed, re.M)

    shown, every = names(), names("--all")
    openai = [name for name in shown if name.startswith("openai/")]
    assert len(openai) == 20
    assert openai[0] == f"openai/{ROWS['openai'].model}"
    assert not [name for name in openai if re.search(r"-20\d\d-", name) or "/gpt-4" in name]
    makers = [name.split("/")[1] for name in shown if name.startswith("openrouter/")]
    assert makers[:3] == ["anthropic"] * 3
    assert len(makers) == 20
    # A search covers all of them.
    assert {"openai/gpt-4o", "openai/gpt-4o-2024-08-06"} <= set(names("gpt-4o")) <= set(every)
    assert set(shown) <= set(every)
    assert f"and {len([n for n in every if n.startswith('openai/')]) - 20} more" in (
        run(tmp_path, nowhere, "models").stdout
    )


def test_the_table_of_models_is_updated_from_a_file_only_on_request(tmp_path: Path) -> None:
    newer = {"gpt-6-sol": {
        "litellm_provider": "openai", "mode": "chat", "max_input_tokens": 5000,
        "input_cost_per_token": 7e-06, "output_cost_per_token": 9e-06,
    }}  # fmt: skip
    (tmp_path / "models.json").write_text(json.dumps(newer), "utf-8")
    source = str(tmp_path / "models.json")
    done = run(tmp_path, {}, "models", "update", source)
    assert done.returncode == 0, done.stderr
    environ = {"OPENAI_API_KEY": OPENAI_KEY, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    rows = json.loads(run(tmp_path, environ, "models", "--json", "gpt-6").stdout)
    prices = {row["name"]: row["inputPrice"] for row in rows}
    assert prices["openai/gpt-6-sol"] == 7
    assert prices["openai/gpt-6-luna"] == 0.1
    assert run(tmp_path, {}, "models", "update", str(tmp_path / "no.json")).returncode == 1
    (tmp_path / "models.json").write_text("[]", "utf-8")
    assert "no models" in run(tmp_path, {}, "models", "update", source).stderr


def test_a_model_of_a_gateway_keeps_its_name(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Hi."}]}
    with serving(plan) as server:
        done = clew(tmp_path, server.url, "-p", "hi", "--model", "openai/gpt-6-sol")
        assert done.stdout == "Hi.\n", done.stderr
        assert server.requests[0].body["model"] == "openai/gpt-6-sol"


def test_a_local_server_that_cuts_the_prompt_is_found_out(tmp_path: Path) -> None:
    usage = {"input_tokens": 2048, "output_tokens": 3}
    plan = {
        "scenario": 1,
        "answers": [{"when": {"has_tool": "Read"}, "text": "Hm?", "usage": usage}],
    }
    with serving(plan) as server:
        environ = {"OLLAMA_HOST": server.url.removeprefix("http://")}
        done = run(tmp_path, environ, "-p", "hi")
        assert "Ollama read only 2,048 of about" in done.stdout + done.stderr
        assert "OLLAMA_CONTEXT_LENGTH" in done.stdout + done.stderr


def test_a_model_without_tools_calls_them_in_text(tmp_path: Path) -> None:
    call = '```tool_call\n{"name": "Read", "input": {"file_path": "a.txt"}}\n```'
    with serving_wire("chat", words(f"I look.\n{call}"), words("It says alpha.")) as service:
        mine = {"like": "vllm", "wire": "chat", "url": service.url, "key": "env:MINE"}
        models = {"mine/small": {"tools": False}}
        settings = json.dumps({"services": {"mine": mine}, "models": models})
        environ = {"MINE": "key-0123456789"}
        done = run(
            tmp_path, environ, "-p", "read a.txt", "--model", "mine/small", "--settings", settings
        )
        assert done.stdout == "It says alpha.\n", done.stderr
        first, second = service.requests
        assert "tools" not in first
        assert "tool_call" in json.dumps(first["messages"][0])
        assert "Result of Read" in json.dumps(second["messages"][-1])
        assert "alpha" in json.dumps(second["messages"][-1])


REFUSED_TOOLS = {
    "ollama": (400, {"error": {"message": "gemma3:4b does not support tools", "type": "api_error",
                               "param": None, "code": None}}),
    "openrouter": (404, {"error": {"message": "No endpoints found that support tool use. To learn "
                                   "more about provider routing, visit the docs.", "code": 404}}),
    "vllm": (400, {"object": "error", "message": '"auto" tool choice requires '
                   "--enable-auto-tool-choice and --tool-call-parser to be set",
                   "type": "BadRequestError", "param": None, "code": 400}),
    "groq": (400, {"error": {"message": "tool calling is not supported with this model",
                             "type": "invalid_request_error", "param": "tool calling"}}),
    "llamacpp": (500, {"error": {"code": 500, "message": "tools param requires --jinja flag",
                                 "type": "server_error"}}),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED_TOOLS)
def test_a_model_that_refuses_tools_is_asked_without_them(tmp_path: Path, kind: str) -> None:
    call = '```tool_call\n{"name": "Read", "input": {"file_path": "a.txt"}}\n```'
    refusal = REFUSED_TOOLS[kind]

    def answer(body: dict[str, Any]) -> Any:
        said = words(call) if len(service.requests) == 2 else words("It says alpha.")
        return refusal if "tools" in body else said

    with serving_wire("chat", *[answer] * 3) as service:
        mine = {"like": "openai", "wire": "chat", "url": service.url, "key": "env:MINE"}
        settings = json.dumps({"services": {"mine": mine}})
        environ = {"MINE": "key-0123456789"}
        done = run(
            tmp_path, environ, "-p", "read a.txt", "--model", "mine/small", "--settings", settings
        )
    assert done.stdout == "It says alpha.\n", done.stderr
    assert "mine/small does not support tool calls" in done.stderr
    assert done.stderr.count("tool calls") == 1
    # The refusal is learned from once.
    assert ["tools" in body for body in service.requests] == [True, False, False]


def test_only_the_wire_in_use_is_imported(tmp_path: Path) -> None:
    with serving_wire("responses", words("Hi.")) as service:
        environ = of_openai(service) | {"PYTHONPROFILEIMPORTTIME": "1"}
        done = run(tmp_path, environ, "-p", "hi")
        assert done.stdout == "Hi.\n", done.stderr
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "clew.providers.responses" in imported
    unused = {
        "clew.providers.chat", "clew.providers.gemini", "clew.providers.converse",
        "clew.providers.clouds", "clew.providers.text_tools", "clew.providers.model_lists",
        "clew.agent.offers", "clew.core.stream.chat", "clew.core.stream.gemini",
    }  # fmt: skip
    assert imported & unused == set()
    plan = {"scenario": 1, "answers": [{"text": "Hi."}]}
    with serving(plan) as server:
        done = clew(tmp_path, server.url, "-p", "hi", environ={"PYTHONPROFILEIMPORTTIME": "1"})
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    more = {"clew.core.catalog.known_models", "clew.providers.wires", "clew.providers.foreign"}
    assert imported & (unused | more | {"clew.providers.responses"}) == set()


def test_the_doctor_knows_the_keys_of_all_services(tmp_path: Path) -> None:
    told = run(tmp_path, {"OPENAI_API_KEY": OPENAI_KEY}, "doctor", "--offline").stdout
    assert "OpenAI has a key; its models are named openai/MODEL" in told
    assert "no API key" not in told
    assert OPENAI_KEY not in told
    (tmp_path / "config" / "settings.json").parent.mkdir(exist_ok=True)
    (tmp_path / "config" / "settings.json").write_text(
        '{"services": {"a": {"like": "no"}}}', "utf-8"
    )
    assert 'unknown service "no"' in run(tmp_path, {}, "doctor", "--offline").stdout
