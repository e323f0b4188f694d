"""Sessions that preserved thinking could have made unusable, in the real program.

The service binds each thinking block to everything before it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.core.normalize.pairing import MEDIA_FOLLOWS
from clew.core.normalize.prefix import MESSAGES, REFUSED, SYSTEM
from clew.core.normalize.repairs import Repair, describe_repairs
from clew.testing.preserved import CONTROLS, Preserving
from clew.testing.server import LoopbackServer, serving
from tests.core.normalize.generator import png
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.test_request_costs import SESSION, entry, left, lines
from tests.fronts.terminal.terminal import Terminal
from tests.requirements import requirement

Json = dict[str, Any]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TOLD = "no longer shown to the model: "
BOUND = "The block is bound to a different conversation"


def lost(count: int, why: str) -> str:
    """Return the notice about thinking blocks that the model does not see."""
    return describe_repairs(
        [Repair(kind="thought_unbound", uuid=str(n), detail=why) for n in range(count)]
    )


def thinks(body: Json) -> Json:
    """A model that thinks, looks around once per prompt, thinks again and answers."""
    last = body["messages"][-1]
    answered = isinstance(last["content"], list) and any(
        block["type"] == "tool_result" for block in last["content"]
    )
    if answered:
        return {"content": [{"thinking": "So be it."}, "Done."]}
    call = {"tool": "Bash", "id": f"toolu_{len(body['messages'])}", "input": {"command": "true"}}
    return {"content": [{"thinking": "Hm."}, {"redacted_thinking": ""}, call]}


def say(home: Path, server: LoopbackServer, prompt: str, *args: str, **environ: str) -> Any:
    known = ("--session-id", SESSION) if not transcripts(home) else ("--resume", SESSION)
    return clew(
        home, server.url, "-p", prompt, "--model", "opus", "--allowed-tools", "Bash", *known, *args,
        environ=environ,
    )  # fmt: skip


def thoughts(body: Json) -> list[Json]:
    return [
        block
        for message in body["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] in ("thinking", "redacted_thinking")
    ]


def bindings(server: LoopbackServer) -> list[Any]:
    return [request.body.get("thinking", {}).get("block_binding") for request in server.requests]


def unbound(home: Path) -> list[Json]:
    return [
        repair
        for line in lines(home, "request-repairs")
        for repair in line["repairs"]
        if repair["kind"] == "thought_unbound"
    ]


@requirement("R040")
def test_a_session_that_only_grows_keeps_its_thinking_blocks_and_asks_for_nothing(
    tmp_path: Path,
) -> None:
    service = Preserving(thinks)
    with serving(service, strict=True) as server:
        done = [say(tmp_path, server, prompt) for prompt in ("one", "two", "three")]
    assert [(run.returncode, run.stderr) for run in done] == [(0, "")] * 3
    assert len(thoughts(server.requests[-1].body)) == 8
    assert bindings(server) == [None] * 6
    assert service.refusals == []
    entries = [line for line in lines(tmp_path, "assistant") if "boundTo" in line]
    assert len(entries) == 9
    assert all(len(json.dumps(line["boundTo"])) < 150 for line in entries)


def test_other_instructions_cost_the_thinking_blocks_and_no_session(tmp_path: Path) -> None:
    service = Preserving(thinks)
    with serving(service, strict=True) as server:
        say(tmp_path, server, "one")
        changed = say(tmp_path, server, "two", "--append-system-prompt", "Be brief.")
        later = say(tmp_path, server, "three", "--append-system-prompt", "Be brief.")
    assert (changed.returncode, later.returncode) == (0, 0)
    assert changed.stderr.count(lost(3, SYSTEM)) == 1
    assert TOLD not in later.stderr
    assert bindings(server)[2:] == [{"prefix_mismatch_behavior": "drop_block"}] * 4
    assert all(CONTROLS in (r.header("anthropic-beta") or "") for r in server.requests[2:])
    assert service.refusals == []
    assert sorted(service.left_out.values()) == ["prefix_binding_mismatch"] * 3
    assert len(unbound(tmp_path)) == 3


def test_without_betas_the_thinking_blocks_stay_after_for_good(tmp_path: Path) -> None:
    service = Preserving(thinks)
    off = {"CLEW_DISABLE_BETAS": "1"}
    with serving(service, strict=True) as server:
        say(tmp_path, server, "one", **off)
        changed = say(tmp_path, server, "two", "--append-system-prompt", "Be brief.", **off)
        later = say(tmp_path, server, "three", "--append-system-prompt", "Be brief.", **off)
    assert (changed.returncode, later.returncode) == (0, 0)
    assert TOLD in changed.stderr
    assert TOLD not in later.stderr
    assert service.refusals == []
    assert service.left_out == {}
    assert bindings(server) == [None] * 6
    assert [len(thoughts(request.body)) for request in server.requests] == [0, 2, 0, 2, 3, 5]


def test_a_gateway_without_the_control_is_asked_once(tmp_path: Path) -> None:
    service = Preserving(thinks, has_control=False)
    with serving(service, strict=True) as server:
        say(tmp_path, server, "one")
        done = say(tmp_path, server, "two", "--append-system-prompt", "Be brief.")
    assert done.returncode == 0
    assert done.stdout == "Done.\n"
    assert service.refusals == ["thinking.adaptive.block_binding: Extra inputs are not permitted"]
    assert done.stderr.count(TOLD) == 1


@pytest.mark.parametrize("has_control", [True, False])
def test_a_gateway_that_speaks_in_front_of_every_request_is_no_end(
    tmp_path: Path, has_control: bool
) -> None:
    service = Preserving(thinks, rewrites=True, has_control=has_control)
    with serving(service, strict=True) as server:
        done = [say(tmp_path, server, prompt) for prompt in ("one", "two")]
    assert [run.stdout for run in done] == ["Done.\n"] * 2
    assert BOUND in service.refusals[0]
    assert len(service.refusals) == (1 if has_control else 5)
    assert len(unbound(tmp_path)) == 5


def test_a_session_of_another_program_continues(tmp_path: Path) -> None:
    """What its thinking is bound to is recorded nowhere, and its instructions were different."""
    service = Preserving(thinks)
    asked = {"model": "claude-opus-5-5", "system": "Theirs.", "messages": [
        {"role": "user", "content": "look"}]}  # fmt: skip
    signed = service.sign(asked, [{"thinking": "Theirs."}], "")
    block = {"type": "thinking", "thinking": "Theirs.", "signature": signed[0]["signature"]}
    theirs = (
        entry(1, "assistant", content=[block]),
        entry(1, "assistant", content=[{"type": "text", "text": "Seen."}]),
    )
    theirs[1].update(uuid=entry(2, "user")["uuid"], parentUuid=theirs[0]["uuid"])
    for each in theirs:
        each["message"]["model"] = "claude-opus-5-5"
    left(tmp_path, entry(0, "user", content="look"), *theirs)
    with serving(service, strict=True) as server:
        done = say(tmp_path, server, "go on")
        later = say(tmp_path, server, "and on")
    assert (done.returncode, later.returncode) == (0, 0)
    assert service.refusals == []
    assert done.stderr.count(lost(1, "")) == 1
    assert TOLD not in later.stderr
    assert [repair["uuid"] for repair in unbound(tmp_path)] == [theirs[0]["uuid"]]


def test_images_that_the_service_refuses_take_only_later_thinking_blocks_along(
    tmp_path: Path,
) -> None:
    picture = {"type": "base64", "media_type": "image/png", "data": png(1_500, 1_500)}

    def large(body: Json) -> Json:
        has_image = '"type": "image"' in json.dumps(body["messages"])
        if has_image and len(body["messages"]) > 4:
            return {"status": 413}
        return thinks(body)

    service = Preserving(large)
    left(tmp_path, entry(0, "user", content=[{"type": "text", "text": "look"}, {
        "type": "image", "source": picture}]))  # fmt: skip
    with serving(service) as server:
        first = say(tmp_path, server, "on")
        second = say(tmp_path, server, "on")
        third = say(tmp_path, server, "on")
    assert [run.returncode for run in (first, second, third)] == [0, 0, 0]
    assert [request.status for request in server.requests].count(413) == 1
    assert lost(3, "") in second.stderr
    assert service.refusals == []
    assert TOLD not in third.stderr


def test_a_summary_that_is_refused_with_the_thinking_blocks_is_written_from_the_record(
    tmp_path: Path,
) -> None:
    def summarises(body: Json) -> Json:
        is_asked = "<summary>" in json.dumps(body["messages"][-1])
        words = "We looked around and found that all is well. " * 10
        return {"text": f"<summary>{words}</summary>"} if is_asked else thinks(body)

    service = Preserving(summarises, rewrites=True, has_control=False)
    off = {"CLEW_DISABLE_BETAS": "1"}
    with serving(service) as server:
        say(tmp_path, server, "one " + "word " * 500, **off)
        done = say(tmp_path, server, "/compact", **off)
        on = say(tmp_path, server, "on", **off)
    assert (done.returncode, on.returncode, on.stdout) == (0, 0, "Done.\n")
    assert len(lines(tmp_path, "user")) > 2
    assert any(line.get("isCompactSummary") for line in lines(tmp_path, "user"))


def test_a_terminal_goes_on_after_an_edit_that_would_have_been_the_end(tmp_path: Path) -> None:
    service = Preserving(thinks)
    with (
        serving(service, strict=True) as server,
        Terminal(
            tmp_path,
            server.url,
            "--model",
            "opus",
            "--allowed-tools",
            "Bash",
            "--session-id",
            SESSION,
        ) as terminal,
    ):
        terminal.expect("> ")
        for prompt in ("one", "two"):
            terminal.type(f"{prompt}\n")
            terminal.expect("Done.")
            terminal.expect("> ")
        first = lines(tmp_path, "user")[0]["uuid"]
        terminal.type(f"/context exclude {first}\n")
        terminal.expect(
            "thinking: 3 thinking blocks after the range will no longer be shown to the model"
        )
        terminal.type(f"/context exclude {first} now\n")
        terminal.expect("excluded from requests")
        terminal.type("three\n")
        terminal.expect(lost(3, MESSAGES))
        terminal.expect("Done.")
        terminal.expect("> ")
        terminal.type("four\n")
        terminal.expect("Done.")
        assert terminal.all.count(TOLD) == 1
    assert service.refusals == []
    assert len(service.left_out) == 3


class Elsewhere:
    """A service that signed none of the thinking blocks that it receives."""

    def __init__(self, words: str) -> None:
        self._words = words
        self.refused = 0

    def __call__(self, body: Json) -> Json:
        if thoughts(body):
            self.refused += 1
            return {
                "status": 400,
                "error": {"type": "invalid_request_error", "message": self._words},
            }
        return {"text": "Done."}


@pytest.mark.parametrize(
    "words",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.1: Invalid `data` in `redacted_thinking` block",
        "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message "
        "cannot be modified. These blocks must remain as they were in the original response.",
    ],
)
def test_thinking_blocks_that_another_service_signed_are_refused_once_and_never_sent_again(
    tmp_path: Path, words: str
) -> None:
    with serving(Preserving(thinks), strict=True) as server:
        say(tmp_path, server, "one")
    service = Elsewhere(words)
    with serving(service, strict=True) as server:
        moved = say(tmp_path, server, "two")
        later = say(tmp_path, server, "three")
    assert [(run.returncode, run.stdout) for run in (moved, later)] == [(0, "Done.\n")] * 2
    assert service.refused == 1
    assert moved.stderr.count(lost(3, REFUSED)) == 1
    assert TOLD not in later.stderr


def overloaded(model: str) -> Any:
    """The rule of a service at which one model is overloaded."""

    def answers(body: Json) -> Json:
        if body["model"] == model:
            busy = {"type": "overloaded_error", "message": "Overloaded"}
            return {"status": 529, "error": busy, "headers": {"retry-after-ms": "1"}}
        return thinks(body)

    return answers


def test_a_fallback_model_is_judged_as_itself(tmp_path: Path) -> None:
    """The first model binds nothing; the one that answers in its place does."""
    with serving(Preserving(thinks), strict=True) as server:
        say(tmp_path, server, "one", "--model", "claude-fable-5-1")
    service = Preserving(overloaded("claude-opus-5"))
    changed = ("--model", "claude-opus-5", "--append-system-prompt", "Be brief.")
    with serving(service, strict=True) as server:
        done = say(tmp_path, server, "two", *changed, "--fallback-model", "claude-fable-5-1")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert lost(3, SYSTEM) in done.stderr
    assert service.refusals == []
    said = [(line, line["message"]["content"][0]["type"]) for line in lines(tmp_path, "assistant")]
    made = [line for line, kind in said if kind.endswith("thinking")]
    assert len(made) == 6
    assert all("boundTo" in line for line in made)


def test_a_fallback_model_is_sent_no_system_messages_where_it_takes_none(tmp_path: Path) -> None:
    hook = {"hooks": [{"type": "command", "command": "echo the lamp is green"}]}
    settings = json.dumps({"hooks": {"UserPromptSubmit": [hook]}})
    with serving(overloaded("claude-opus-5-5"), strict=True) as server:
        chain = ("--settings", settings, "--fallback-model", "claude-haiku-4-5")
        done = say(tmp_path, server, "one", *chain)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    asked = {request.body["model"]: request.body["messages"] for request in server.requests}
    roles = {model: {message["role"] for message in said} for model, said in asked.items()}
    assert "system" in roles["claude-opus-5-5"]
    assert "system" not in roles["claude-haiku-4-5"]


def test_a_model_that_binds_its_thinking_blocks_unknown_to_clew_is_not_asked_for_ever(
    tmp_path: Path,
) -> None:
    service = Preserving(thinks, reads={"our-model": frozenset()})
    with serving(service) as server:
        say(tmp_path, server, "one", "--model", "our-model")
        done = say(
            tmp_path, server, "two", "--model", "our-model", "--append-system-prompt", "Now."
        )
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert len(service.refusals) == 1
    assert f"{TOLD}{REFUSED}" in done.stderr


def test_a_round_of_tools_that_began_without_thinking_ends_without_it(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "true"}}
    cut = entry(1, "assistant", content=[call])
    cut["message"]["model"] = "claude-haiku-4-5-20251001"
    left(tmp_path, entry(0, "user", content="look"), cut)
    with serving(Preserving(thinks), strict=True) as server:
        done = say(tmp_path, server, "go on", "--model", "claude-haiku-4-5")
        say(tmp_path, server, "and on", "--model", "claude-haiku-4-5")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    asked = [request.body["thinking"]["type"] for request in server.requests]
    assert asked == ["disabled", "enabled", "enabled"]


def test_a_tool_that_failed_with_a_picture_shows_it_after_the_results(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "mcp__x__shot", "input": {}}
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    }
    failed = {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True}
    left(
        tmp_path,
        entry(0, "user", content="look"),
        entry(1, "assistant", content=[call]),
        entry(2, "user", content=[failed | {"content": [picture]}]),
    )
    with serving(thinks, strict=True) as server:
        done = say(tmp_path, server, "go on")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    result, shown, *_ = server.requests[0].body["messages"][2]["content"]
    assert result == failed | {"content": MEDIA_FOLLOWS}
    assert shown["type"] == "image"
