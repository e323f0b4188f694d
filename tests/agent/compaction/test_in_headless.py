"""Sessions that outgrow their window, in the real program: each continues."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.agent.compaction.retelling import FROM_RECORD
from clew.agent.compaction.summary import NO_SUMMARY
from clew.commands.slash.context import NOT_COMPACTED
from clew.core.messages.encoding import encode
from clew.core.messages.text import AFTER_MAX_TOKENS
from clew.record.transcript.paths import encode_path
from clew.testing.server import serving
from tests.agent.compaction.window import (
    ARGS,
    SETTINGS,
    SUMMARY,
    WINDOW,
    Window,
    answered,
    said_last,
    size_of,
    text_of,
)
from tests.core.normalize.generator import png
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_screen import READY
from tests.record.transcript.build import SESSION, talk, user, write
from tests.requirements import requirement
from tests.wording import head

Json = dict[str, Any]
PARAGRAPH = "The lighthouse keeper writes a long line about the paint. " * 60
SAID = SUMMARY.removeprefix("<summary>").removesuffix("</summary>")


def entries(home: Path) -> list[Json]:
    (path,) = transcripts(home)
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def boundaries(home: Path) -> list[Json]:
    return [e for e in entries(home) if e.get("subtype") == "compact_boundary"]


def resumed(home: Path, url: str, prompt: str, *more: str) -> str:
    (path,) = transcripts(home)
    done = clew(home, url, "-p", prompt, "--resume", path.stem, *ARGS, *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


@requirement("R192", "R048")
def test_a_conversation_near_its_window_is_summarised_and_continues(tmp_path: Path) -> None:
    window = Window(lambda body: answered("I paint. " + PARAGRAPH, body))
    with serving(window, strict=True) as server:
        grown(tmp_path, server.url, 15)
        for number in range(7):
            assert "I paint." in resumed(
                tmp_path, server.url, f"Go on, part {number}. " + PARAGRAPH
            )
    assert not window.refused
    assert len(window.summaries) >= 2
    assert len(boundaries(tmp_path)) == len(window.summaries)
    assert SAID in text_of(window.asked[-1])
    assert size_of(window.asked[-1]) < 24_000
    first = boundaries(tmp_path)[0]
    assert first["parentUuid"] is None
    assert first["compactMetadata"]["trigger"] == "auto"


@pytest.mark.parametrize("model", ["sonnet", "claude-sonnet-4-5"])
def test_a_request_after_a_summary_begins_with_one_user_message(tmp_path: Path, model: str) -> None:
    window = Window(lambda body: answered("Painted.", body), limit=10**9)
    with serving(window, strict=True) as server:
        for prompt in ("Paint it. " + PARAGRAPH, "/compact", "Go on.", "And on."):
            more = () if prompt.startswith("Paint") else ("--continue",)
            done = clew(tmp_path, server.url, "-p", prompt, "--model", model, *more)
            assert done.returncode == 0, done.stderr
    assert [m["role"] for m in window.asked[-1]["messages"]] == ["user", "assistant", "user"]
    assert SAID in encode(window.asked[-1]["messages"][0]).decode()


# The characters of a history: more than any request of the window holds, and somewhat more than the
# window by an estimate.
@pytest.mark.parametrize("chars", [400_000, 150_000])
def test_a_resumed_history_beyond_the_window_is_compacted_whatever_its_usage_says(
    tmp_path: Path, chars: int
) -> None:
    lines = talk(chars // len(PARAGRAPH) // 2)
    for line in lines:  # Each response says that it had 3 + 5 tokens.
        content = line["message"]["content"]
        line["message"]["content"] = (
            PARAGRAPH if isinstance(content, str) else [{"type": "text", "text": PARAGRAPH}]
        )
    folder = tmp_path / "config" / "projects" / encode_path(str(tmp_path / "work"))
    write(folder, [*lines, user("last", f"a{len(lines) // 2}", "And?")])
    window = Window(lambda body: answered("Painted.", body))
    if chars > 8 * WINDOW:
        with serving(
            lambda body: {"status": 401, "error": {"type": "x", "message": "No."}}
        ) as shut:
            refused = clew(tmp_path, shut.url, "-p", "Go.", "--resume", SESSION, *ARGS)
        assert refused.returncode == 1
        assert boundaries(tmp_path) == [], "a service that is unavailable costs no history"
    with serving(window, strict=True) as server:
        assert "Painted." in resumed(tmp_path, server.url, "Go on.")
    assert (window.refused, len(window.summaries), len(window.asked)) == ([], 1, 1)
    assert SAID in text_of(window.asked[0])
    (boundary,) = boundaries(tmp_path)
    meta = boundary["compactMetadata"]
    assert meta["preTokens"] > WINDOW > meta["postTokens"]


def grown(home: Path, url: str, turns: int, *more: str) -> None:
    """A conversation of this many long turns."""
    with Hosted(home, url, *ARGS, *more) as host:
        host.say("Paint it. " + PARAGRAPH)
        assert not host.result()["is_error"]
        for number in range(1, turns):
            host.say(f"Go on, part {number}. " + PARAGRAPH)
            assert not host.result()["is_error"]
        host.end()


def painter(body: Json) -> Json:
    return answered("I paint. " + PARAGRAPH, body)


def coats(last: int) -> Callable[[Json], Json]:
    """A model that works step by step in one turn, and is done after the last step."""
    rounds = itertools.count()

    def part(body: Json) -> Json:
        number = next(rounds)
        if number == last:
            return answered("All painted.", body)
        call = {"tool": "Bash", "input": {"command": f"echo coat {number}"}}
        return answered([PARAGRAPH, call], body)

    return part


def test_an_order_to_summarise_that_comes_to_nothing_is_answered_once(tmp_path: Path) -> None:
    window = Window(
        lambda body: answered("Hello!", body), summary=lambda body: answered("no", body)
    )
    why = f"summarizing failed: {NO_SUMMARY}"
    with serving(window, strict=True) as server:
        assert clew(tmp_path, server.url, "-p", PARAGRAPH, *ARGS).returncode == 0
        once = clew(tmp_path, server.url, "-p", "/compact", "--continue", *ARGS)
        assert once.returncode == 1
        assert (once.stdout + once.stderr).count(why) == 1
        lines = clew(tmp_path, server.url, *ARGS, "--continue", input="/compact\n")
        assert (lines.stdout + lines.stderr).count(why) == 1
        with OnScreen(tmp_path, server.url, *ARGS, "--continue") as screen:
            screen.expect(READY)
            screen.type("/compact\r")
            screen.expect(why)
            screen.type("/status\r")
            screen.expect("Debug log")
            assert " ".join(screen.text.split()).count(why) == 1
    assert boundaries(tmp_path) == []


def test_a_conversation_that_a_summary_would_make_larger_stays_as_it_is(tmp_path: Path) -> None:
    long = "<summary>" + PARAGRAPH * 3 + "</summary>"
    window = Window(
        lambda body: answered("Hello!", body), summary=lambda body: answered(long, body)
    )
    with serving(window, strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "hi", *ARGS).returncode == 0
        short = clew(tmp_path, server.url, "-p", "/compact", "--continue", *ARGS)
        assert (short.returncode, window.summaries) == (1, [])
        assert "nothing was compacted" in short.stderr
        clew(tmp_path, server.url, "-p", PARAGRAPH, "--continue", *ARGS)
        wordy = clew(tmp_path, server.url, "-p", "/compact", "--continue", *ARGS)
        assert "nothing was compacted" in wordy.stderr
        assert len(window.summaries) == 1
        assert clew(tmp_path, server.url, "-p", "go on", "--continue", *ARGS).returncode == 0
    assert boundaries(tmp_path) == []
    assert PARAGRAPH.strip() in text_of(window.asked[-1])


def test_a_user_sees_what_a_summary_would_replace_and_what_it_dropped(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "plan.txt").write_text(PARAGRAPH, "utf-8")
    (work / "north.txt").write_text(PARAGRAPH, "utf-8")

    def part(body: Json) -> Json:
        if "begin" not in said_last(body):
            return answered("Done.", body)
        todos = [{"content": "paint it", "status": "pending", "activeForm": "painting"}]
        reads = [{"tool": "Read", "input": {"file_path": f"{n}.txt"}} for n in ("plan", "north")]
        return answered([{"tool": "TodoWrite", "input": {"todos": todos}}, *reads], body)

    said = "<summary>The north is in north.txt.</summary>"
    window = Window(part, summary=lambda body: answered(said, body))
    args = (*ARGS, "--tools", "TodoWrite,Read")

    def says(prompt: str) -> str:
        return resumed(tmp_path, server.url, prompt, *args)

    with serving(window, strict=True) as server:
        clew(tmp_path, server.url, "-p", "begin " + PARAGRAPH, *args)
        shown = says("/compact --preview")
        assert "would be replaced by a summary" in shown
        assert f"read file: {work / 'north.txt'}, {work / 'plan.txt'}" in shown
        assert "open task: paint it" in shown
        assert (window.summaries, boundaries(tmp_path)) == ([], [])
        assert NOT_COMPACTED in says("/compact --check")
        (work / "plan.txt").unlink()
        says("/compact")
        checked = says("/compact --check")
    assert "does not mention 1 of 3 facts" in checked
    assert f"read file: {work / 'plan.txt'}" in checked
    assert "north" not in checked


def test_a_summary_of_a_short_conversation_does_not_say_that_it_saw_a_part(tmp_path: Path) -> None:
    summaries = iter(["no", SUMMARY])
    window = Window(
        lambda body: answered("Hello!", body), summary=lambda body: answered(next(summaries), body)
    )
    with serving(window, strict=True) as server:
        assert clew(tmp_path, server.url, "-p", PARAGRAPH, *ARGS).returncode == 0
        done = clew(tmp_path, server.url, "-p", "/compact", "--continue", *ARGS)
    assert len(window.summaries) == 2
    assert head(FROM_RECORD) in text_of(window.summaries[1])
    assert "entries summarized, 0 kept verbatim" in done.stdout
    assert "not seen" not in done.stdout
    assert boundaries(tmp_path)[0]["compactMetadata"]["covers"]["leftOut"] == []


@requirement("W8", "R077", "R078")
def test_a_refusal_as_too_long_is_answered_by_a_summary(tmp_path: Path) -> None:
    """The service's window is smaller than clew knows."""
    window = Window(painter, limit=12_000)
    with serving(window, strict=True) as server:
        grown(tmp_path, server.url, 9)
    assert window.refused
    assert boundaries(tmp_path)
    assert SAID in text_of(window.asked[-1])


def test_an_unknown_window_is_learnt_from_the_refusal(tmp_path: Path) -> None:
    window = Window(painter, limit=12_000)
    with (
        serving(window, strict=True) as server,
        Hosted(tmp_path, server.url, "--model", "nobody-knows-me") as host,
    ):
        for number in range(10):
            host.say(f"On, {number}. " + PARAGRAPH)
            assert not host.result()["is_error"]
    assert window.refused
    assert boundaries(tmp_path)


def test_large_results_of_one_round_are_taken_out_and_stay_readable(tmp_path: Path) -> None:
    def part(body: Json) -> Json:
        last = body["messages"][-1]["content"]
        if any(b.get("type") == "tool_result" for b in last):
            return answered("I have seen it.", body)
        calls = [
            {"tool": "Bash", "input": {"command": f"yes 'a long line of output {n}' | head -900"}}
            for n in range(6)
        ]
        return {"content": calls, "usage": {"input_tokens": size_of(body), "output_tokens": 100}}

    window = Window(part)
    with serving(window, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "Look.", *ARGS)
    assert done.stdout == "I have seen it.\n", done.stderr
    (micro,) = [e for e in entries(tmp_path) if e.get("subtype") == "microcompact_boundary"]
    references = micro["microcompactMetadata"]["references"]
    assert references
    (named,) = [e for e in entries(tmp_path) if e["type"] == "content-replacement"]
    assert named["messageUuid"] == micro["uuid"]
    assert {r["toolUseId"]: r["replacement"] for r in named["replacements"]} == references
    kept = next(iter(references.values())).split(" in ")[1].split(";")[0]
    assert "a long line of output" in Path(kept).read_text("utf-8")


def test_a_prompt_larger_than_the_window_is_quoted_by_its_ends(tmp_path: Path) -> None:
    window = Window(lambda body: answered("I see its ends.", body))
    huge = "BEGINNING " + PARAGRAPH * 40 + " END"
    with serving(window, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", *ARGS, input=huge)
    assert done.stdout == "I see its ends.\n", done.stderr
    sent = text_of(window.asked[-1])
    assert "BEGINNING" in sent
    assert " END" in sent
    kept = sent.split("full text in ")[1].split(")")[0]
    assert Path(kept).read_text("utf-8").startswith("BEGINNING")


def test_a_summary_that_does_not_fit_either_is_asked_with_less(tmp_path: Path) -> None:
    """The question for the summary is refused until it holds little enough."""

    def summary(body: Json) -> Json:
        if size_of(body) > 3_000:
            words = f"prompt is too long: {size_of(body)} tokens > 3000 maximum"
            return {"status": 400, "error": {"type": "invalid_request_error", "message": words}}
        return answered(SUMMARY, body)

    window = Window(painter, summary=summary)
    with serving(window, strict=True) as server:
        grown(tmp_path, server.url, 11)
    assert len(window.summaries) > 1
    assert SAID in text_of(window.asked[-1])


def test_without_any_summary_the_conversation_still_continues(tmp_path: Path) -> None:
    window = Window(
        painter, limit=9_000, summary=lambda body: {"status": 400, "error": {"message": "no"}}
    )
    with serving(window, strict=True) as server:
        grown(tmp_path, server.url, 7)
    receipt = boundaries(tmp_path)[-1]["compactMetadata"]["covers"]
    assert receipt["summaryBy"] == "record"
    assert "The user's requests, oldest first" in text_of(window.asked[-1])


def test_a_model_that_calls_tools_instead_of_summarising_is_asked_otherwise(tmp_path: Path) -> None:
    def summary(body: Json) -> Json:
        if body.get("tools"):
            return answered([{"tool": "Bash", "input": {"command": "echo no"}}], body)
        return answered(SUMMARY, body)

    window = Window(painter, summary=summary)
    with serving(window, strict=True) as server:
        grown(tmp_path, server.url, 11)
    assert [bool(b.get("tools")) for b in window.summaries] == [True, False]
    assert SAID in text_of(window.asked[-1])


@requirement("R192")
def test_a_user_summarises_with_a_focus(tmp_path: Path) -> None:
    window = Window(painter)
    with serving(window, strict=True) as server:
        grown(tmp_path, server.url, 3)
        said = resumed(tmp_path, server.url, "/compact mind the north side")
        resumed(tmp_path, server.url, "Go on.")
    assert "tokens before" in said
    (asked,) = window.summaries
    assert "mind the north side" in text_of(asked)
    # The conversation is the prompt, as it is cached; the mark stands where later requests share it.
    shared = window.asked[2]["messages"]
    assert [m["role"] for m in asked["messages"][: len(shared)]] == [m["role"] for m in shared]
    assert "cache_control" in encode(asked["messages"][-2]).decode()
    assert "cache_control" not in encode(asked["messages"][-1]).decode()
    (boundary,) = boundaries(tmp_path)
    assert boundary["compactMetadata"]["trigger"] == "manual"
    assert SAID in text_of(window.asked[-1])
    assert "Paint it." not in text_of(window.asked[-1])


@requirement("R017", "R022", "R181", "R193", "R250")
def test_what_was_summarised_comes_back(tmp_path: Path) -> None:
    window = Window(painter)
    with serving(window, strict=True) as server:
        grown(tmp_path, server.url, 3)
        before = window.asked[-1]["messages"]
        resumed(tmp_path, server.url, "/compact")
        resumed(tmp_path, server.url, "Said behind the summary.")
        (path,) = transcripts(tmp_path)
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        said = resumed(tmp_path, server.url, "/compact --undo")
        resumed(tmp_path, server.url, "Go on.")
        again = resumed(tmp_path, server.url, "/compact --show")
        checked = clew(tmp_path, server.url, "sessions", "check", transcripts(tmp_path)[0].stem)
    assert checked.returncode == 0, checked.stdout
    # One boundary, its summary behind it, and an unbroken chain from there to what came later.
    (boundary,) = [line for line in lines if line.get("subtype") == "compact_boundary"]
    (summary,) = [line for line in lines if line.get("isCompactSummary")]
    assert boundary["parentUuid"] is None
    by_id = {line["uuid"]: line for line in lines if "uuid" in line}
    at = next(
        line
        for line in lines
        if line["type"] == "user" and "behind the summary" in str(line["message"]["content"])
    )
    above = []
    while at["parentUuid"] is not None:
        at = by_id[at["parentUuid"]]
        above.append(at["uuid"])
    assert {boundary["uuid"], summary["uuid"]} <= set(above)
    withdrawn = {
        json.loads(line)["messageUuid"]
        for line in path.read_text("utf-8").splitlines()
        if '"type":"tombstone"' in line
    }
    assert boundary["uuid"] in withdrawn
    assert "compaction was undone" in said
    sent = window.asked[-1]["messages"]
    assert [m["role"] for m in sent[: len(before)]] == [m["role"] for m in before]
    assert "Paint it." in text_of(window.asked[-1])
    assert "Said behind the summary." in text_of(window.asked[-1])
    assert SAID not in text_of(window.asked[-1])
    assert NOT_COMPACTED in again


def test_a_part_is_summarised_up_to_a_message_or_from_it(tmp_path: Path) -> None:
    window = Window(painter)
    with serving(window, strict=True) as server:
        grown(tmp_path, server.url, 4)
        listed = resumed(tmp_path, server.url, "/compact --list")
        resumed(tmp_path, server.url, "/compact --before 2")
        resumed(tmp_path, server.url, "Next.")
        up_to = window.asked[-1]["messages"]
        resumed(tmp_path, server.url, "/compact --from 2 the last part")
        resumed(tmp_path, server.url, "And next.")
        since = window.asked[-1]["messages"]
    assert listed.splitlines()[1].startswith("   2  Go on, part 1.")
    words = json.dumps(up_to)
    assert "Paint it." not in words
    assert words.index(SAID) < words.index("Go on, part 1.")
    words = json.dumps(since)
    assert words.index("Go on, part 1.") < words.rindex(SAID)
    assert "Go on, part 2." not in words


@requirement("R188", "R194")
def test_messages_that_a_summary_keeps_lie_before_it_and_follow_it(tmp_path: Path) -> None:
    window = Window(painter)
    with serving(window, strict=True) as server:
        grown(tmp_path, server.url, 4)
        resumed(tmp_path, server.url, "/compact --before 2")
        lines = entries(tmp_path)
        resumed(tmp_path, server.url, "Next.")
    (boundary,) = boundaries(tmp_path)
    segment = boundary["compactMetadata"]["preservedSegment"]
    by_id = {line["uuid"]: n for n, line in enumerate(lines) if "uuid" in line}
    kept = [segment["tailUuid"]]
    while kept[-1] != segment["headUuid"]:
        kept.append(lines[by_id[kept[-1]]]["parentUuid"])
    assert len(kept) > 2
    assert max(by_id[uuid] for uuid in kept) < by_id[boundary["uuid"]]
    words = json.dumps(window.asked[-1]["messages"])
    places = [words.index(text) for text in (SAID, "Go on, part 1.", "Go on, part 3.", "Next.")]
    assert places == sorted(places)
    assert "Paint it." not in words


def test_an_agent_outgrows_its_window_and_reports(tmp_path: Path) -> None:
    rounds = iter(range(1_000))

    def part(body: Json) -> Json:
        words = text_of(body)
        if "Have them counted." in words:
            if "tool_result" in words:
                return answered("The agent has counted.", body)
            given = {
                "description": "count",
                "prompt": "Count the coats.",
                "run_in_background": False,
            }
            call = {"tool": "Agent", "input": given | {"subagent_type": "general-purpose"}}
            return answered([call], body)
        number = next(rounds)
        if number >= 20:
            return answered("Twenty coats.", body)
        return answered(
            [PARAGRAPH, {"tool": "Bash", "input": {"command": f"echo coat {number}"}}], body
        )

    window = Window(part)
    with serving(window, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "Have them counted.", *ARGS)
    assert done.stdout == "The agent has counted.\n", done.stderr
    assert window.summaries
    assert not window.refused
    (agent,) = (tmp_path / "config" / "projects").glob("*/*/subagents/agent-*.jsonl")
    lines = [json.loads(line) for line in agent.read_text("utf-8").splitlines()]
    assert [e["agentId"] for e in lines if e.get("subtype") == "compact_boundary"]
    assert not boundaries(tmp_path)
    assert "Twenty coats." in text_of(window.asked[-1])


def hooks(*events: str) -> str:
    command = "cat >> $HOME/heard; echo >> $HOME/heard"
    made = {event: [{"hooks": [{"type": "command", "command": command}]}] for event in events}
    return json.dumps(
        {"hooks": made, "models": {"small": {"contextWindow": 24000, "maxOutput": 4000}}}
    )


def test_hooks_hear_of_a_summary_and_may_prevent_it(tmp_path: Path) -> None:
    args = ("--model", "small", "--settings", hooks("PreCompact", "PostCompact", "SessionStart"))
    window = Window(painter)
    with serving(window, strict=True) as server:
        clew(tmp_path, server.url, "-p", "Paint.", *args)
        (path,) = transcripts(tmp_path)
        done = clew(tmp_path, server.url, "-p", "/compact north", "--resume", path.stem, *args)
        assert done.returncode == 0, done.stderr
        no = json.dumps(
            {
                "hooks": {
                    "PreCompact": [
                        {"hooks": [{"type": "command", "command": "echo not now >&2; exit 2"}]}
                    ]
                }
            }
        )
        resume = ("--resume", path.stem, "--settings", no, "--model", "claude-haiku-4-5")
        clew(tmp_path, server.url, "-p", "On.", *resume)
        held = clew(tmp_path, server.url, "-p", "/compact", *resume)
    heard = [
        json.loads(line) for line in (tmp_path / "heard").read_text("utf-8").split("\n") if line
    ]
    told = [(h["hook_event_name"], h.get("trigger"), h.get("source")) for h in heard]
    assert told == [
        ("SessionStart", None, "startup"),
        ("SessionStart", None, "resume"),
        ("PreCompact", "manual", None),
        ("PostCompact", "manual", None),
        ("SessionStart", None, "compact"),
    ]
    assert heard[2]["custom_instructions"] == "north"
    assert heard[3]["compact_summary"] == SAID
    assert held.returncode == 1
    assert "not now" in held.stderr
    assert len(boundaries(tmp_path)) == 1


def test_a_user_turns_it_off_and_the_turn_ends_with_what_helps(tmp_path: Path) -> None:
    settings = json.dumps(
        {
            "autoCompactEnabled": False,
            "models": {"small": {"contextWindow": 24000, "maxOutput": 4000}},
        }
    )
    args = ("--model", "small", "--settings", settings)
    window = Window(painter, limit=9_000)
    with serving(window, strict=True) as server:
        clew(tmp_path, server.url, "-p", "Paint. " + PARAGRAPH, *args)
        (path,) = transcripts(tmp_path)
        for _ in range(6):
            done = clew(
                tmp_path, server.url, "-p", "On. " + PARAGRAPH, "--resume", path.stem, *args
            )
        assert done.returncode == 1
        assert "/compact" in done.stderr
        assert not boundaries(tmp_path)
        done = clew(tmp_path, server.url, "-p", "/compact", "--resume", path.stem, *args)
        assert done.returncode == 0, done.stderr
        done = clew(tmp_path, server.url, "-p", "On.", "--resume", path.stem, *args)
        assert done.returncode == 0, done.stderr


def test_many_images_do_not_end_a_conversation(tmp_path: Path) -> None:
    """Pictures fill the window; the summary is asked without them."""
    image = png(600, 600)
    block = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": image},
    }
    window = Window(lambda body: answered("Seen.", body))
    with serving(window, strict=True) as server, Hosted(tmp_path, server.url, *ARGS) as host:
        for number in range(6):
            host.say([*[block] * 8, {"type": "text", "text": f"Look, {number}."}])
            assert host.result()["result"] == "Seen."
        assert host.end() == 0
    assert boundaries(tmp_path)
    assert not [b for b in window.summaries if "image/png" in text_of(b) and size_of(b) > 24_000]
    # The last request has a part of the pictures, the log all of them.
    assert 8 <= text_of(window.asked[-1]).count('"image/png"') < 48
    assert all(size_of(body) <= WINDOW for body in window.asked if body not in window.refused)
    (path,) = transcripts(tmp_path)
    assert path.read_text("utf-8").count('"image/png"') == 48


def test_a_request_with_too_many_bytes_for_the_service_is_answered_by_a_summary(
    tmp_path: Path,
) -> None:
    """Status 413 says neither a size nor a limit."""
    window = Window(painter, limit=1_000_000)
    refused = 0

    def narrow(body: Json) -> Json:
        nonlocal refused
        if len(text_of(body)) > 40_000:
            refused += 1
            words = "Request exceeds the maximum allowed number of bytes"
            return {"status": 413, "error": {"type": "request_too_large", "message": words}}
        return window(body)

    with serving(narrow, strict=True) as server:
        grown(tmp_path, server.url, 9)
    assert refused
    assert boundaries(tmp_path)
    assert SAID in text_of(window.asked[-1])


def test_an_answer_that_fills_the_window_is_continued(tmp_path: Path) -> None:
    def part(body: Json) -> Json:
        if AFTER_MAX_TOKENS in said_last(body):
            return answered("and the south.", body)
        if "now both" in text_of(body):
            return answered("I paint the north", body, stop_reason="model_context_window_exceeded")
        return answered("Yes. " + PARAGRAPH, body)

    window = Window(part)
    with serving(window, strict=True) as server:
        clew(tmp_path, server.url, "-p", "Paint. " + PARAGRAPH, *ARGS)
        said = resumed(tmp_path, server.url, "now both")
    assert said == "and the south.\n"
    assert boundaries(tmp_path)


def test_what_a_summary_cannot_carry_is_told_again(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "CLAUDE.md").write_text("Always use the blue paint.", "utf-8")
    (work / "plan.txt").write_text("coat one, coat two", "utf-8")

    def part(body: Json) -> Json:
        if "begin" in said_last(body):
            todos = [
                {"content": "paint the north", "status": "completed", "activeForm": "painting"},
                {"content": "paint the south", "status": "pending", "activeForm": "painting"},
            ]
            return answered(
                [
                    {"tool": "TodoWrite", "input": {"todos": todos}},
                    {"tool": "Read", "input": {"file_path": str(work / "plan.txt")}},
                ],
                body,
            )
        return answered("Done.", body)

    window = Window(part)
    args = (*ARGS, "--tools", "TodoWrite,Read,Bash")
    with serving(window, strict=True) as server:
        clew(tmp_path, server.url, "-p", "begin " + PARAGRAPH, *args)
        resumed(tmp_path, server.url, "/compact", *args)
        resumed(tmp_path, server.url, "Go on.", *args)
    sent = text_of(window.asked[-1])
    assert "Always use the blue paint." in sent
    assert "[completed] paint the north" in sent
    assert "[pending] paint the south" in sent
    assert "coat one, coat two" in sent
    receipt = boundaries(tmp_path)[0]["compactMetadata"]["covers"]
    assert receipt["openTodos"] == ["paint the south"]
    assert receipt["filesRead"] == [str(work / "plan.txt")]


def test_instructions_longer_than_the_window_are_told_by_their_ends(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    rules = "".join(f"rule {n}: the side number {n} is painted white\n" for n in range(2_500))
    (work / "CLAUDE.md").write_text(rules, "utf-8")
    window = Window(lambda body: answered("Painted.", body))
    with serving(window, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "Paint it.", *ARGS)
    assert done.stdout == "Painted.\n", done.stderr
    (asked,) = window.asked
    told = text_of(asked)
    assert "rule 0: the side" in told
    assert "rule 2499: the side" in told
    assert "rule 1200: the side" not in told
    assert "Paint it." in told
    assert "not sent to the model: the middle of instructions" in done.stderr
    assert "shorter files" in done.stderr
    assert "compaction failed" not in done.stderr


def test_where_the_beginning_alone_fills_the_window_a_user_is_told_what_does(
    tmp_path: Path,
) -> None:
    long = ("--append-system-prompt", "The lighthouse is white. " * 4_000)
    window = Window(painter)
    with serving(window, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "Paint.", *ARGS, *long)
        assert done.returncode == 1
        assert "of 24,000 tokens: system prompt" in done.stderr
        assert "(--tools, /mcp disable) or a shorter system prompt" in done.stderr
        # The session is as good as before, and goes on once there is room.
        assert "I paint." in resumed(tmp_path, server.url, "Paint now.")


def test_a_small_window_holds_a_short_conversation(tmp_path: Path) -> None:
    settings = json.dumps({"models": {"small": {"contextWindow": 7000, "maxOutput": 1000}}})
    window = Window(lambda body: answered("Here.", body), limit=7_000)
    with serving(window, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "Hi.", "--model", "small", "--settings", settings)
    assert done.stdout == "Here.\n", done.stderr
    assert not window.refused


@pytest.mark.parametrize("at", [0.3, 7_200, {"sm*": 0.3, "*": 0.9}])
def test_a_user_says_in_the_settings_when_to_shorten(at: object, tmp_path: Path) -> None:
    settings = json.loads(SETTINGS) | {"autoCompactAt": at}
    window = Window(painter)
    with (
        serving(window, strict=True) as server,
        Hosted(
            tmp_path, server.url, "--model", "small", "--settings", json.dumps(settings)
        ) as host,
    ):
        for number in range(4):
            host.say(f"Paint side {number}. " + PARAGRAPH)
            assert not host.result()["is_error"]
    assert window.summaries
    assert size_of(window.summaries[0]) < 10_000
