"""Message threads in the real program.

What is sent, how a session uses them, and what follows each rejection.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from clew.testing.preserved import Preserving
from clew.testing.server import LoopbackServer, serving
from clew.testing.threads import BETA, Holding, Taken, ThreadRefusal
from tests.fronts.headless.agents_model import agent, by_prompt, uses
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_agents import results

Json = dict[str, Any]
ON = ("--settings", '{"messageThreads": true}')
LOOPS = 4


def works(body: Json) -> Json:
    """A model that looks around a few times, thinking, and answers."""
    last = body["messages"][-1]["content"]
    called = sum(
        block["type"] == "tool_use"
        for message in body["messages"]
        if message["role"] == "assistant"
        for block in message["content"]
    )
    if called % LOOPS == 0 and called and isinstance(last, list) and _is_result(last[0]):
        return {"content": [{"thinking": "So be it."}, f"Done after {called}."]}
    call = {"tool": "LS", "id": f"toolu_{called}", "input": {"path": "." + "/" * called}}
    return {"content": [{"thinking": "Hm."}, call]}


def _is_result(block: Json) -> bool:
    return bool(block["type"] == "tool_result")


def holding(rule: Any = works, **more: Any) -> Holding:
    return Holding(Preserving(rule), **({"now_s": time.monotonic} | more))


class Refusing(Holding):
    """Rejects the second request, or every later one with `always`, in the way of `refusal`."""

    refusal: ThreadRefusal
    always = False
    asked = 0

    def take(self, body: Json, betas: str) -> Taken | ThreadRefusal:
        self.asked += 1
        if self.asked == 2 or (self.always and "thread" in body and self.asked > 2):
            self.refusals.append(self.refusal)
            return self.refusal
        return super().take(body, betas)


def kinds(server: LoopbackServer) -> list[str]:
    return [(r.body.get("thread") or {}).get("type", "none") for r in server.requests]


def test_a_turn_with_tools_sends_what_is_new_and_is_the_same_turn(tmp_path: Path) -> None:
    told: list[tuple[str, list[Json]]] = []
    for name, args in (("with", ON), ("without", ())):
        home = tmp_path / name
        home.mkdir()
        service = holding()
        with serving(service, strict=True) as server:
            done = clew(home, server.url, "-p", "look", "--model", "opus", *args)
            assert (done.returncode, done.stderr) == (0, "")
            if args:
                assert kinds(server) == ["create"] + ["continue"] * LOOPS
                sizes = [request.size_bytes for request in server.requests]
                assert max(sizes[1:]) < sizes[0] / 10
                assert all(BETA in (r.header("anthropic-beta") or "") for r in server.requests)
                assert [r.body["model"] for r in server.requests] == ["claude-opus-5-5"] * 5
            else:
                assert kinds(server) == ["none"] * (LOOPS + 1)
                assert not any(BETA in (r.header("anthropic-beta") or "") for r in server.requests)
        told.append((done.stdout, recorded(home)))
        assert [len(body["messages"]) for body in service.shown] == [2, 4, 6, 8, 10]
    assert told[0] == told[1]
    assert told[0][0] == f"Done after {LOOPS}.\n"


def recorded(home: Path) -> list[Json]:
    """Return the answers in a transcript: their text and the service's token counts."""
    (path,) = transcripts(home)
    entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    answers = [entry["message"] for entry in entries if entry["type"] == "assistant"]
    costs = [entry["usage"] for entry in entries if entry["type"] == "request-cost"]
    assert len(costs) == LOOPS + 1
    # Names differ in length from home to home, and so does what the service counts.
    counted = [{k: v for k, v in cost.items() if k != "input_tokens"} for cost in costs]
    contents = [_unsigned(message["content"]) for message in answers]
    return [*contents, *counted]


def _unsigned(content: list[Json]) -> Json:
    return {"content": [{k: v for k, v in b.items() if k != "signature"} for b in content]}


def test_a_host_s_session_is_one_thread_from_turn_to_turn(tmp_path: Path) -> None:
    service = holding()
    with serving(service, strict=True) as server:
        with Hosted(tmp_path, server.url, "--model", "opus", *ON) as host:
            for prompt in ("look", "and again", "once more"):
                host.say(prompt)
                assert host.result()["subtype"] == "success"
            assert host.end() == 0
        assert kinds(server) == ["create"] + ["continue"] * (3 * (LOOPS + 1) - 1)
    assert service.refusals == []
    assert len(service.shown[-1]["messages"]) > 2 * 3 * LOOPS


def test_another_process_begins_a_thread_of_its_own(tmp_path: Path) -> None:
    service = holding()
    with serving(service, strict=True) as server:
        clew(tmp_path, server.url, "-p", "look", "--model", "opus", *ON)
        again = clew(tmp_path, server.url, "-p", "again", "--continue", "--model", "opus", *ON)
        assert again.stdout == f"Done after {2 * LOOPS}.\n"
        assert kinds(server) == (["create"] + ["continue"] * LOOPS) * 2


REFUSALS = [
    (404, "thread_not_found", ()),
    (400, "thread_already_continued", ()),
    (400, "thread_continue_in_flight", ()),
    (400, "thread_fingerprint_mismatch", ()),
    (400, "thread_unsupported_request", ("hipaa",)),
    (400, "thread_unsupported_request", ()),
    (400, None, ()),
]


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize(("status", "code", "unsupported"), REFUSALS)
def test_the_session_continues_after_each_refusal(
    tmp_path: Path, status: int, code: str | None, unsupported: tuple[str, ...], always: bool
) -> None:
    service = Refusing(Preserving(works), now_s=time.monotonic)
    words = "thread: Extra inputs are not permitted"
    service.refusal = ThreadRefusal(
        status=status, message=words, code=code, unsupported=unsupported
    )
    service.always = always
    with serving(service, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "look", "--model", "opus", *ON)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"Done after {LOOPS}.\n", "")
        seen = kinds(server)
    renews = code in ("thread_not_found", "thread_already_continued", "thread_continue_in_flight",
                      "thread_fingerprint_mismatch")  # fmt: skip
    if not renews:
        assert seen == ["create", "continue"] + ["none"] * LOOPS
    elif always:
        assert seen == ["create", "continue", "create"] + ["none"] * LOOPS
    else:
        assert seen == ["create", "continue", "create"] + ["continue"] * (LOOPS - 1)
    assert [len(body["messages"]) for body in service.shown] == [2, 4, 6, 8, 10]


@pytest.mark.parametrize("strict", [True, False])
def test_a_gateway_that_ignores_threads_is_told_everything(tmp_path: Path, strict: bool) -> None:
    service = holding(has_threads=False)
    with serving(service, strict=strict) as server:
        done = clew(tmp_path, server.url, "-p", "look", "--model", "opus", *ON)
        assert (done.stdout, done.stderr) == (f"Done after {LOOPS}.\n", "")
        assert kinds(server) == ["create", "continue"] + ["none"] * LOOPS


def test_a_service_that_knows_no_threads_is_asked_once(tmp_path: Path) -> None:
    with serving(Preserving(works), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "look", "--model", "opus", *ON)
        assert (done.stdout, done.stderr) == (f"Done after {LOOPS}.\n", "")
        assert kinds(server) == ["create"] + ["none"] * (LOOPS + 1)


def test_agents_have_threads_of_their_own(tmp_path: Path) -> None:
    look = {"tool": "LS", "input": {"path": "."}}
    model = by_prompt(
        {
            "go": [
                uses(agent("look here"), agent("look there")),
                lambda body: {"text": f"heard: {len(results(body))}"},
            ],
            "look": [uses(look), {"text": "nothing here"}],
        }
    )
    service = Holding(model, now_s=time.monotonic)
    with serving(service, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--model", "opus", *ON)
        assert done.stdout == "heard: 2\n"
        assert sorted(kinds(server)) == ["continue"] * 3 + ["create"] * 3
    assert service.refusals == []


def test_the_variable_says_the_same_and_a_no_is_a_no(tmp_path: Path) -> None:
    with serving(holding(), strict=True) as server:
        on = {"CLEW_MESSAGE_THREADS": "1"}
        clew(tmp_path, server.url, "-p", "look", environ=on)
        assert kinds(server)[:2] == ["create", "continue"]
        server.requests.clear()
        off = ("--settings", '{"messageThreads": false}')
        clew(tmp_path, server.url, "-p", "look", *off, environ=on)
        clew(tmp_path, server.url, "-p", "look", *ON, environ={"CLEW_MESSAGE_THREADS": "0"})
        assert set(kinds(server)) == {"none"}


def test_a_folder_that_is_not_trusted_switches_nothing_on(tmp_path: Path) -> None:
    folder = tmp_path / "work" / ".claude"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text('{"messageThreads": true}', "utf-8")
    with serving(holding(), strict=True) as server:
        clew(tmp_path, server.url, "-p", "look")
        assert set(kinds(server)) == {"none"}


def test_a_killed_session_and_two_forks_of_it_begin_threads_of_their_own(tmp_path: Path) -> None:
    service = holding()
    with serving(service, strict=True) as server:
        with Hosted(tmp_path, server.url, "--model", "opus", *ON) as host:
            host.say("look")
            host.result()
        # It was killed. Two copies go on from the same answer, at the same time.
        (path,) = transcripts(tmp_path)
        fork = ("--resume", path.stem, "--fork-session", "--model", "opus", *ON)
        with Hosted(tmp_path, server.url, *fork) as one, Hosted(tmp_path, server.url, *fork) as two:
            for host in (one, two):
                host.say("and again")
            assert [host.result()["subtype"] for host in (one, two)] == ["success"] * 2
            assert [host.end() for host in (one, two)] == [0, 0]
        assert sorted(kinds(server)) == ["continue"] * 3 * LOOPS + ["create"] * 3
    assert service.refusals == []
