"""A turn as it is shown: finished lines once and in order, live lines within limits."""

from base64 import b64encode
from decimal import Decimal
from typing import Any

import pytest
from pyte import HistoryScreen, Stream

from clew.agent.events import (
    Compacted,
    Compacting,
    Doubted,
    EngineEvent,
    FromAgent,
    HookFinished,
    HookStarted,
    NotCompacted,
    Noticed,
    NotSaved,
    Printed,
    Recorded,
    Repaired,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
)
from clew.agent.hooks.output import Ran
from clew.agent.tasks import notice
from clew.agent.tools.base import Progress
from clew.agent.tools.patch import NO_LAST_NEWLINE
from clew.core.ledger.ledger import Spend
from clew.core.ledger.spending import TokenCounts
from clew.core.messages.text import IN_BACKGROUND, describe_user_rejection
from clew.core.normalize.repairs import Repair, describe_repairs
from clew.core.page import PageGroup, PageRow, ReportPage
from clew.core.stream.events import (
    BlockDropped,
    BlockFinished,
    BlockStarted,
    InputDelta,
    MessageFinished,
    MessageStarted,
    TextDelta,
    ThinkingDelta,
    ToolUseReady,
)
from clew.fronts.render.folders import Folders
from clew.fronts.render.folding import Folds
from clew.fronts.render.grouping import CallGroup
from clew.fronts.render.rows import count_cells
from clew.fronts.render.stories import describe_closing, describe_failure, describe_turn
from clew.fronts.render.theme import BARE, DARK, Abilities, Look
from clew.fronts.render.transcript import Transcript
from clew.providers.answer_events import FellBack, HeldByRateLimit, Retrying, Waiting, Withdrawn
from clew.providers.base import Failure
from tests.fronts.terminal.render.corpus import ANSWER


def transcript(width: int = 60, **fields: Any) -> Transcript:
    return Transcript(width, BARE, **fields)


def fed(shown: Transcript, *events: EngineEvent | TurnEnded) -> list[str]:
    return [line for event in events for line in shown.feed(event)]


def words(text: str) -> list[EngineEvent | TurnEnded]:
    deltas = [TextDelta(index=0, text=text[i : i + 7]) for i in range(0, len(text), 7)]
    return [*deltas, BlockFinished(index=0, block={"type": "text", "text": text})]


def call(name: str = "Bash", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t1", "name": name, "input": given}


def finished(
    block: dict[str, Any],
    content: Any,
    raw: Any = None,
    *,
    is_error: bool = False,
    display: str = "",
) -> ToolFinished:
    result = {"type": "tool_result", "tool_use_id": block["id"], "content": content}
    entry = {
        "type": "user",
        "message": {"role": "user", "content": [result | ({"is_error": True} if is_error else {})]},
        "toolUseResult": raw,
    }
    return ToolFinished(block=block, entry=entry, is_error=is_error, display=display)


def test_words_show_at_once_and_go_out_when_they_stand() -> None:
    shown = transcript()
    assert fed(shown, TextDelta(index=0, text="Half **a line**")) == []
    assert shown.tail(60, 5) == ["  Half a line"]
    assert fed(shown, BlockFinished(index=0, block={"type": "text"})) == ["  Half a line"]
    assert shown.tail(60, 5) == []


@pytest.mark.no_cover
def test_an_answer_without_a_line_end_is_seen_from_its_first_word_and_its_tail_stays_low() -> None:
    shown = transcript()
    for number in range(700):
        shown.feed(TextDelta(index=0, text=f"word{number} "))
        tail = shown.tail(60, 6)
        assert len(tail) <= 6
        assert f"word{number}" in tail[-1]


def test_a_call_is_one_story_with_its_hooks_and_its_result() -> None:
    shown = transcript()
    block = call(command="make test")
    assert (
        fed(shown, MessageStarted(message={}), BlockStarted(index=0, block=call() | {"input": {}}))
        == []
    )
    assert shown.tail(60, 5) == ["○ Bash …"]
    fed(shown, InputDelta(index=0, partial_json="x" * 2500))
    assert shown.tail(60, 5) == ["○ Bash … 2 kB"]
    fed(shown, BlockFinished(index=0, block=block), ToolUseReady(index=0, block=block))
    assert shown.tail(60, 5) == ["○ Bash: make test (waiting)"]
    fed(shown, ToolStarted(block=block, title="Bash: run the tests"))
    fed(shown, ToolProgressed(tool_use_id="t1", data=Progress(text="a\nb\nc\nd\n", data={})))
    assert shown.tail(60, 5) == ["○ Bash: run the tests", "  $ make test", "  b", "  c", "  d"]
    ran = Ran(exit_code=1, stdout="", stderr="not on a Friday")
    said = HookFinished(hook_id="h", name="PostToolUse:Bash", event="PostToolUse", ran=ran,
                        title="check.sh", tool_use_id="t1")  # fmt: skip
    fine = HookFinished(hook_id="h", name="n", event="e", ran=Ran(exit_code=0, stdout="", stderr=""),
                        title="ok.sh", tool_use_id="t1")  # fmt: skip
    fed(shown, said, fine, ToolProgressed(tool_use_id="t9", data=Progress(text="x", data={})))
    assert shown.tail(60, 0) == []
    out = fed(shown, finished(block, "1 passed\n", {"stdout": "\x1b[32m1 passed\x1b[0m\n"}))
    assert out == [
        "● Bash: run the tests",
        "  $ make test",
        "  PostToolUse:Bash hook error: not on a Friday",
        "  1 passed",
    ]
    assert shown.tail(60, 5) == []


def test_a_denial_by_a_hook_shows_its_reason_once() -> None:
    shown, block = transcript(), call(command="make test")
    fed(shown, BlockFinished(index=0, block=block), ToolUseReady(index=0, block=block))
    ran = Ran(exit_code=2, stdout="", stderr="not on a Friday")
    denied = HookFinished(hook_id="h", name="PreToolUse:Bash", event="PreToolUse", ran=ran,
                          title="check.sh", tool_use_id="t1")  # fmt: skip
    done = finished(block, "PreToolUse:Bash hook error: not on a Friday", is_error=True)
    done.entry["toolDenialKind"] = "hook"
    out = fed(shown, denied, done)
    assert "\n".join(out).count("not on a Friday") == 1


def test_a_result_for_the_model_has_a_text_of_its_own() -> None:
    shown, block = transcript(announces=True), call("TaskCreate", subject="Paint")
    raw = {"task": {"id": "3", "subject": "Paint"}}
    out = fed(shown, finished(block, "Task #3 created; mark it when you begin.", raw))
    assert out[-1] == "  Added task #3: Paint"


def test_long_output_is_folded_and_can_be_seen_whole() -> None:
    shown = transcript()
    text = "\n".join(f"line {i}" for i in range(1000))
    out = fed(shown, finished(call(command="seq"), text))
    assert len(out) == 11
    assert out[6] == "  … 991 more lines (ctrl+o to expand)"
    assert shown.folded == ["1 Bash: seq"]
    assert shown.see("1 Bash: seq") == shown.see("1") == text.split("\n")
    assert shown.see("2") == shown.see("x") == []


def test_verbose_output_is_not_folded() -> None:
    shown = transcript(is_verbose=True)
    text = "\n".join(f"line {i}" for i in range(1000))
    out = fed(shown, finished(call(command="seq"), text))
    assert out[1:] == ["  " + line for line in text.split("\n")]
    out = fed(shown, finished(call("Read", file_path="a.py"), "1\tone\n2\ttwo", display="2 lines"))
    assert [line.split() for line in out[-2:]] == [["1", "one"], ["2", "two"]]
    assert shown.folded == []


def test_a_line_without_an_end_is_cut_and_can_be_seen_whole() -> None:
    shown = transcript()
    out = fed(shown, finished(call(command="x"), "y" * 100_000))
    assert len(out) == 5
    assert "long lines" in out[-1]
    assert "".join(shown.see("1")) == "y" * 100_000


PATCH = [
    {"oldStart": 9, "oldLines": 3, "newStart": 9, "newLines": 3,
     "lines": [" def f():", "-    return 1", "+    return 2", " ", NO_LAST_NEWLINE]},
    {"oldStart": 90, "oldLines": 1, "newStart": 90, "newLines": 2, "lines": [" x", "+y"]},
]  # fmt: skip


def test_a_change_is_shown_as_lines_with_numbers() -> None:
    shown = transcript()
    raw = {"filePath": "a.py", "structuredPatch": PATCH}
    out = fed(shown, finished(call("Edit", file_path="a.py"), "done", raw))
    assert out == [
        "● Edit: a.py",
        "  +2 -1",
        "   9   def f():",
        "  10 -     return 1",
        "  10 +     return 2",
        "  11",
        f"     {NO_LAST_NEWLINE}",
        "     ⋮",
        "  90   x",
        "  91 + y",
    ]


def test_a_new_file_is_shown_to_a_bound() -> None:
    shown = transcript()
    content = "".join(f"x = {i}\n" for i in range(100))
    raw = {"type": "create", "filePath": "a.py", "content": content, "structuredPatch": []}
    out = fed(shown, finished(call("Write", file_path="a.py"), "done", raw))
    assert out[:3] == ["● Write: a.py", "  new, +100", "    1 + x = 0"]
    assert len(out) == 13
    assert out[-1] == "  … +90 lines (ctrl+o to expand)"
    assert len(shown.see("1")) == 100
    # Not all rows of an endless file are painted to be counted.
    raw = {"type": "create", "filePath": "a.py", "content": "x\n" * 5000, "structuredPatch": []}
    out = fed(shown, finished(call("Write", file_path="a.py"), "done", raw))
    assert out[-1] == "  … more than 500 lines (ctrl+o to expand)"


def test_a_change_that_was_just_approved_is_not_shown_again() -> None:
    shown, block = transcript(), call("Edit", file_path="a.py")
    shown.saw("t1")
    raw = {"filePath": "a.py", "structuredPatch": PATCH}
    assert fed(shown, finished(block, "done", raw)) == [
        "● Edit: a.py",
        "  +2 -1 (ctrl+o to expand)",
    ]
    assert len(shown.see("1")) == 8
    assert len(fed(shown, finished(block, "done", raw))) == 10
    # An approval counts in its own turn only.
    shown.saw("t1")
    fed(shown, TurnEnded(reason="completed"))
    assert len(fed(shown, finished(block, "done", raw))) == 10


def test_what_the_model_reads_is_a_line_for_people_that_can_be_opened() -> None:
    shown = transcript()
    read = finished(call("Read", file_path="a.py"), "1\tx\n2\ty\n", display="2 lines")
    assert fed(shown, read) == []
    assert shown.tail(60, 5) == ["● Read: a.py"]
    assert fed(shown, Noticed(messages=("Mind this",))) == [
        "● Read: a.py · 2 lines (ctrl+o to expand)",
        "",
        "! Mind this",
    ]
    assert shown.see("1") == ["1    x", "2    y"]


def test_a_page_of_the_web_is_a_line_that_can_be_opened() -> None:
    shown = transcript()
    read = finished(call("WebFetch", url="https://a.b"), "first\nsecond\n", display="2 lines")
    assert fed(shown, read)[-1] == "  2 lines (ctrl+o to expand)"
    assert shown.see("1") == ["first", "second"]


def test_a_page_wraps_its_notes_below_their_start() -> None:
    rows = (PageRow(label="name", note="a note that is too long for the width of a page"),)
    page = ReportPage(title="Title", groups=(PageGroup(rows=rows),))
    lines = transcript(40).page(page)
    note = next(line for line in lines if "name" in line)
    after = lines[lines.index(note) + 1]
    assert lines[0].strip() == "Title"
    assert note.index("a note") == len(after) - len(after.lstrip())
    narrow = transcript(16).page(page)
    assert any(line.strip().startswith("name") for line in narrow)


def test_a_hooks_status_is_shown_while_it_runs() -> None:
    shown = transcript(says_waits=True)
    assert fed(shown, HookStarted(hook_id="h", name="n", event="e", status="Linting")) == []
    assert any("Linting" in line for line in shown.tail(60, 5))


def test_a_group_without_calls_has_no_lines() -> None:
    look = Look(theme=BARE, width=60)
    assert CallGroup().take(look, Folds("")) == []
    assert CallGroup().live(look) == []


def test_a_persons_shell_line_is_said_in_line_mode() -> None:
    block = {"type": "bash", "id": "", "name": "Bash", "input": {"command": "ls"}}
    told = fed(transcript(announces=True), ToolStarted(block=block, title="! ls"))
    assert told[-1] == "! ls"


LOOKED = [
    call("Read", file_path="/w/a.py") | {"id": "r1"},
    call("Grep", pattern="x") | {"id": "r2"},
    call("Read", file_path="/w/b.py") | {"id": "r3"},
    call("Read", file_path="/w/a.py") | {"id": "r4"},
    call("LS", path="/w") | {"id": "r5"},
]


def test_reads_and_searches_in_a_row_are_one_line() -> None:
    shown = transcript(100, folders=Folders(cwd="/w"))
    fed(shown, *words("Let me look."))
    for block in LOOKED:
        assert fed(shown, ToolStarted(block=block, title="")) == []
        assert fed(shown, ThinkingDelta(index=0, thinking="hm"), finished(block, "text")) == []
    assert fed(shown, BlockFinished(index=0, block={"type": "thinking"})) == []
    row = "● Read 2 files, searched 1 pattern, listed 1 folder"
    assert shown.tail(100, 5) == ["", row]
    fed(shown, TextDelta(index=0, text="So it is"))
    assert shown.tail(100, 5) == ["", row, "", "  So it is"]
    out = fed(shown, *words(""), TurnEnded(reason="completed"))
    assert out == ["", f"{row} (ctrl+o to expand)", "", "  So it is"]
    (name,) = [name for name in shown.folded if "Read 2 files" in name]
    whole = shown.see(name)
    assert whole[:5] == ["Read: a.py", "text", "", "Grep: x", "text"]
    assert whole[-2:] == ["LS: .", "text"]
    # The thoughts between them can be expanded too.
    assert any("Thinking" in name for name in shown.folded)


def test_failures_are_not_folded_away() -> None:
    shown = transcript(folders=Folders(cwd="/w", home="/home/u"))
    fed(shown, finished(LOOKED[0], "text"))
    fed(shown, finished(LOOKED[2], "File not found: /w/b.py", is_error=True))
    out = shown.prompt("next")
    assert out == [
        "✗ Read 1 file, 1 failed (ctrl+o to expand)", "  Read: b.py", "  File not found: b.py", "", "> next",
    ]  # fmt: skip
    for block in LOOKED[:2]:
        fed(shown, finished(block, "No.", is_error=True))
    out = fed(shown, TurnEnded(reason="completed"))
    assert out == [
        "", "✗ 2 calls failed", "  Read: a.py", "  No.", "  Grep: x", "  No.",
    ]  # fmt: skip
    fed(shown, finished(LOOKED[0], "No.", is_error=True))
    assert fed(shown, TurnEnded(reason="completed")) == ["✗ Read: a.py", "  No."]
    # A denial is an event of its own.
    denied = finished(LOOKED[0], describe_user_rejection("not now"), is_error=True)
    denied.entry["toolDenialKind"] = "user-rejected"
    assert fed(shown, denied) == ["✗ Read: a.py", "  Denied: not now"]


def test_a_session_that_goes_on_folds_its_reads_as_it_did() -> None:
    blocks = [*LOOKED, call(command="ls")]
    results = [finished(block, "text").entry for block in blocks]
    history = [{"type": "assistant", "message": {"content": blocks}}, *results]
    shown = transcript(100, folders=Folders(cwd="/w"))
    row = "● Read 2 files, searched 1 pattern, listed 1 folder"
    assert shown.history(history) == [
        "",
        f"{row} (ctrl+o to expand)",
        "● Bash: ls",
        "  text",
    ]
    history = [{"type": "assistant", "message": {"content": blocks[:2]}}, *results[:2]]
    only = transcript(folders=Folders(cwd="/w")).history(history)
    assert only == ["", "● Read 1 file, searched 1 pattern (ctrl+o to expand)"]
    linear = transcript(announces=True).history(history)
    assert len(linear) == 5


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/w/p/a.py", "a.py"),
        ("* in /w/p", "* in ."),
        ("/w/p/", "."),
        ("/w/other/x.py:3", "../other/x.py:3"),
        ("/home/u/.zshrc", "~/.zshrc"),
        ("see /home/u.", "see ~."),
        ("/w/pp/a.py", "../pp/a.py"),
        ("/tmp/w/p/a.py", "/tmp/w/p/a.py"),
        ("/etc/passwd", "/etc/passwd"),
        ("none", "none"),
    ],
)
def test_paths_are_relative_to_the_sessions_folder(text: str, shown: str) -> None:
    assert Folders(cwd="/w/p", home="/home/u").shorten(text) == shown


def test_unknown_folders_and_the_root_shorten_nothing() -> None:
    assert Folders().shorten("/a/b") == "/a/b"
    assert Folders(cwd="/", home="/").shorten("/a/b") == "/a/b"
    # A neighbor in the home folder is named from there.
    assert Folders(cwd="/home/u/w", home="/home/u").shorten("/home/u/x") == "~/x"


def test_a_failure_shows_few_lines_of_its_output() -> None:
    text = "Exit code 1\n" + "\n".join(f"line {i}" for i in range(500))
    out = fed(transcript(), finished(call(command="make"), text, is_error=True))
    assert out == [
        "✗ Bash: make", "  Exit code 1", "  line 0", "  line 1", "  … 495 more lines (ctrl+o to expand)",
        "  line 497", "  line 498", "  line 499",
    ]  # fmt: skip


def test_changes_of_the_todo_list_take_a_line_where_the_list_is_pinned() -> None:
    todos = [
        {"content": "look", "status": "completed", "activeForm": "looking"},
        {"content": "write", "status": "in_progress", "activeForm": "writing"},
        {"content": "test", "status": "pending", "activeForm": "testing"},
    ]
    kept = finished(call("TodoWrite", todos=todos), "kept", {"newTodos": todos})
    assert fed(transcript(), kept) == ["● Todos"]
    added = finished(call("TaskCreate", subject="look"), "", {"task": {"id": "1"}})
    assert fed(transcript(), added) == ["● TaskCreate: look"]
    failed = finished(call("TaskCreate", subject="look"), "no", is_error=True)
    assert fed(transcript(), failed)[1:] == ["  no"]
    told = fed(transcript(announces=True), kept)
    assert told == ["● Todos", "  ☑ look", "  ▸ writing", "  ☐ test"]
    told = fed(transcript(announces=True), added)
    assert told[1:] == ["  Added task #1:"]


def test_a_narrower_terminal_gets_narrower_lines() -> None:
    shown = transcript()
    shown.resize(50)
    fed(shown, TextDelta(index=0, text="words " * 30))
    shown.resize(20)
    shown.resize(20)
    assert all(len(row) <= 20 for row in [*shown.tail(20, 50), *fed(shown, *words("and more"))])


def test_blocks_that_are_no_calls_have_no_story() -> None:
    shown = transcript()
    fed(shown, BlockStarted(index=0, block={"type": "text"}), InputDelta(index=4, partial_json="x"))
    assert shown.tail(60, 5) == []


def test_a_plan_is_shown_as_it_reads() -> None:
    raw = {"plan": "# Plan\n\n1. look\n"}
    out = fed(transcript(), finished(call("ExitPlanMode"), "agreed", raw))
    assert out == ["● Plan", "  Plan", "", "  1. look"]
    assert fed(transcript(), finished(call("Agent"), "")) == ["● Agent", "  done"]


def test_what_a_log_holds_in_another_shape_is_shown_as_text() -> None:
    odd = {"type": "user", "message": {"content": [1, {"type": "text"}]}, "toolUseResult": "x"}
    block = call("Edit", file_path=7)
    out = fed(transcript(), ToolFinished(block=block, entry=odd, is_error=False, display="odd"))
    assert out == ["● Edit", "  odd"]
    raw = {"structuredPatch": [7], "newTodos": [7], "plan": 7, "stdout": 7}
    assert fed(transcript(), finished(block, [1, {"text": 7}, {"text": "as it is"}], raw))[1:] == [
        "  as it is"
    ]


def test_a_persons_own_line_for_the_shell_is_no_story() -> None:
    shown = transcript()
    block = {"type": "bash", "id": "", "name": "Bash", "input": {"command": "ls"}}
    told = fed(shown, ToolStarted(block=block, title="! ls"), Printed(text="a"))
    assert told == ["", "> ! ls", "  a"]
    assert shown.tail(60, 5) == []


def test_a_refusal_says_so_in_its_story() -> None:
    out = fed(transcript(), finished(call(command="rm"), "<tool_use_error>No.</tool_use_error>",
                                     is_error=True))  # fmt: skip
    assert out == ["✗ Bash: rm", "  No."]


def test_thinking_is_folded_and_short_while_it_goes_on() -> None:
    shown = transcript()
    for _ in range(100):
        shown.feed(ThinkingDelta(index=0, thinking="deep thoughts about it "))
    assert len(shown.tail(60, 10)) == 3
    out = fed(shown, BlockFinished(index=0, block={"type": "thinking"}))
    assert out == ["  Thinking: 400 words (ctrl+o to expand)"]
    assert shown.see("1")[0].startswith("deep thoughts")


def test_words_calls_and_notes_stand_apart() -> None:
    shown = transcript()
    assert shown.prompt("hello\nyou") == ["", "> hello", "  you"]
    out = fed(
        shown,
        *words("One.\n\nTwo."),
        finished(call(command="a"), "b"),
        finished(call(command="c"), "d"),
        Noticed(messages=("Mind this",)),
        *words("Three."),
        TurnEnded(reason="completed"),
    )
    assert out == [
        "", "  One.", "", "  Two.", "", "● Bash: a", "  b", "● Bash: c", "  d", "", "! Mind this", "",
        "  Three.",
    ]  # fmt: skip


def test_an_open_call_ends_with_its_turn() -> None:
    shown = transcript()
    fed(shown, ToolStarted(block=call(command="sleep"), title="Bash: sleep"))
    out = fed(shown, TurnEnded(reason="aborted_tools"))
    assert out == ["✗ Bash: sleep", "  Interrupted"]
    assert fed(shown, TurnEnded(reason="api_error", message="no")) == ["", "! no"]
    assert fed(shown, TurnEnded(reason="max_turns", message="3")) == ["! max turns: 3"]
    assert fed(shown, TurnEnded(reason="no_answer")) == ["! no answer"]
    assert fed(shown, TurnEnded(reason="denied_and_stopped")) == []


def test_an_answer_that_begins_anew_leaves_its_open_part() -> None:
    shown = transcript()
    fed(shown, TextDelta(index=0, text="Gone\n\nand "), BlockStarted(index=1, block=call()))
    out = fed(shown, Withdrawn(message={}))
    assert out == ["", "! The response above was cut off; restarting it"]
    assert shown.tail(60, 5) == []
    fed(shown, TextDelta(index=0, text="never shown"))
    assert fed(shown, Withdrawn(message={})) == []


def test_a_dropped_block_leaves_nothing_open() -> None:
    shown = transcript()
    fed(shown, BlockStarted(index=0, block=call()))
    fed(shown, BlockDropped(index=0, block=call(), why="cut"))
    assert shown.tail(60, 5) == []
    fed(shown, TextDelta(index=1, text="half"))
    assert fed(shown, BlockDropped(index=1, block={"type": "text"}, why="cut")) == ["  half"]
    fed(shown, TextDelta(index=1, text="half"))
    assert (
        fed(shown, MessageFinished(message={}, stop_reason="end_turn", complete=True))[-1]
        == "  half"
    )


def test_what_waits_is_said_until_something_comes() -> None:
    shown = transcript(says_waits=True)
    fed(shown, Waiting(silent_s=20, limit_s=90))
    assert shown.tail(60, 3) == ["  No data for 20 s; timing out at 90 s"]
    fed(shown, TextDelta(index=0, text="here"))
    assert shown.tail(60, 3) == ["  here"]
    fed(shown, HeldByRateLimit(delay_s=7))
    assert "7 s" in shown.tail(60, 3)[-1]
    # The terminal's working line says it too.
    told = transcript()
    fed(told, Waiting(silent_s=20, limit_s=90))
    assert told.tail(60, 3) == []


def retrying(attempt: int) -> Retrying:
    failure = Failure(kind="status", message="HTTP 529: Overloaded", status=529)
    return Retrying(
        failure=failure, attempt=attempt, max_attempts=10, delay_s=2, budget_left_s=None
    )


def test_attempts_that_failed_leave_one_line() -> None:
    shown = transcript(says_waits=True)
    assert fed(shown, retrying(1), retrying(2)) == []
    assert shown.tail(80, 3) == ["  API overloaded (529). Retrying in 2 s (attempt 3 of 10)"]
    # A response that breaks off before it says anything is one more attempt.
    assert fed(shown, MessageStarted(message={}), retrying(3)) == []
    lines = fed(shown, MessageStarted(message={}), TextDelta(index=0, text="Here.\n\nAnd"))
    assert lines == ["! API overloaded (529): 3 failed attempts", "", "  Here."]
    assert fed(shown, MessageStarted(message={})) == []
    shown = transcript(says_waits=True)
    fed(shown, retrying(1), MessageStarted(message={}))
    ended = MessageFinished(message={}, stop_reason="end_turn", complete=True)
    assert fed(shown, ended) == ["! API overloaded (529): 1 failed attempt"]
    interrupted = fed(shown, retrying(1), TurnEnded(reason="aborted_streaming"))
    assert interrupted == ["! API overloaded (529): 1 failed attempt", "  Interrupted"]
    # The end of a failed turn says why it failed.
    assert len(fed(shown, retrying(1), TurnEnded(reason="api_error", message="no"))) == 1
    other = FellBack(failure=retrying(1).failure, model="other")
    assert len(fed(shown, retrying(1), other, MessageStarted(message={}))) == 1


def test_an_interrupted_call_keeps_its_output_folded() -> None:
    shown, block = transcript(), call(command="make")
    fed(shown, ToolStarted(block=block, title="Bash: make"))
    fed(shown, ToolProgressed(tool_use_id="t1", data=Progress(text="one\ntwo\n", data={})))
    out = fed(shown, TurnEnded(reason="aborted_tools"))
    assert out == ["✗ Bash: make", "  Interrupted · 2 lines (ctrl+o to expand)"]
    assert shown.see("1") == ["one", "two"]


def test_a_hook_that_blocks_or_stops_is_told_of_in_one_line() -> None:
    blocked = TurnEnded(reason="stopped_by_hook", message="Prompt blocked: no")
    assert fed(transcript(), blocked) == ["! Prompt blocked: no"]
    stopped = TurnEnded(reason="stopped_by_hook", message="enough", rounds=1)
    assert fed(transcript(), stopped) == ["! Stopped by hook: enough"]


def test_a_turn_is_summed_up_from_the_ledger() -> None:
    spend = Spend(requests=2, tokens=TokenCounts(input=10, output=3_210), usd=Decimal("0.01234"))
    assert describe_turn(8.4, spend) == "Done in 8s · 3.2k tokens · $0.0123"
    assert describe_turn(0.1, spend + Spend(unpriced=1)).endswith(" · $0.0123+?")
    assert describe_turn(3_700, Spend(unpriced=1)) == "Done in 1h01m · 0 tokens"
    assert describe_turn(90, Spend(tokens=TokenCounts(output=2_000_000))) == (
        "Done in 1m30s · 2M tokens · $0.0000"
    )


FAILURE = Failure(kind="overloaded", message="overloaded")


MENDED = Repair(kind="result_missing", uuid="u")


def test_reports_of_the_engine_are_lines() -> None:
    boundary = {"type": "system", "subtype": "compact_boundary"}
    out = fed(
        transcript(200, announces=True),
        HookStarted(hook_id="h", name="n", event="e", status="Linting"),
        HookStarted(hook_id="h", name="n", event="e"),
        NotSaved(messages=("the disk is full",)),
        Repaired(repairs=[]),
        Repaired(repairs=[MENDED]),
        Doubted(violations=[], is_held=True),
        Doubted(violations=[], is_held=False),
        Retrying(failure=FAILURE, attempt=1, max_attempts=2, delay_s=4, budget_left_s=None),
        HeldByRateLimit(delay_s=7),
        FellBack(failure=FAILURE, model="other"),
        Compacting(trigger="auto"),
        Compacted(boundary=boundary, entries=[], message="half of it"),
        NotCompacted(message="too short", trigger="auto"),
        NotCompacted(message="its order is answered", trigger="manual"),
        Printed(text="a\x1b]0;t\x07b\n"),
    )
    assert out == [
        "! Linting",
        "! the disk is full",
        f"! {describe_repairs([MENDED])}",
        "! Request not sent; the API would reject it:",
        "! Request sent, but the API may reject it:",
        "! overloaded. Retrying in 4 s (attempt 2 of 2)",
        "! Rate limited. Retrying in 7 s",
        "! overloaded; switching to other",
        "! Compacting the conversation",
        "! Compacted: half of it",
        "! Compaction failed: too short",
        "ab",
    ]


def test_nothing_that_is_said_can_rule_the_terminal() -> None:
    evil = "\x1b[2J\x1b]0;title\x07\x9b5A\r\x08\u202e\x1bP$q\x1b\\"
    shown = Transcript(60, DARK, Abilities(links=True))
    block = {"type": "tool_use", "id": f"t{evil}", "name": evil, "input": {"command": evil}}
    link = f"[a](https://x.y/{evil}) <b {evil}> `{evil}`\n\n```{evil}\n{evil}\n```\n| {evil} |\n|---|\n"
    out = fed(
        shown,
        *words(link + evil),
        ThinkingDelta(index=0, thinking=evil),
        BlockFinished(index=0, block={"type": "thinking"}),
        ToolStarted(block=block, title=evil),
        ToolProgressed(tool_use_id=block["id"], data=Progress(text=evil, data={})),
    )
    out += shown.tail(60, 20)
    out += fed(shown, finished(block, evil, {"structuredPatch": [
        {"oldStart": 1, "newStart": 1, "lines": [f"+{evil}"]}], "filePath": evil}))  # fmt: skip
    out += fed(
        shown, finished(block, evil, is_error=True), Noticed(messages=(evil,)), Printed(text=evil)
    )
    out += shown.prompt(evil) + [line for name in shown.folded for line in shown.see(name)]
    out += shown.folded
    screen = HistoryScreen(60, 100, history=1000)
    Stream(screen).feed("".join(f"{line}\r\n" for line in out))
    assert [line for line in out if "\x1b" in _stripped(line)] == []
    assert screen.title == ""
    assert not any(c in line for line in out for c in "\x07\x08\x9b\r\u202e")


def _stripped(line: str) -> str:
    import re

    return re.sub(r"\x1b\[[\d;]*m(?:\x1b\[K)?|\x1b]8;;[\x21-\x7e]*\x1b\\", "", line)


def test_a_picture_is_drawn_where_the_terminal_can_and_named_elsewhere() -> None:
    png = (
        b"\x89PNG\r\n\x1a\n"
        + b"\0\0\0\rIHDR"
        + (400).to_bytes(4)
        + (200).to_bytes(4)
        + b"\0" * 5000
    )
    source = {"type": "base64", "media_type": "image/png", "data": b64encode(png).decode()}
    result = finished(call("Read", file_path="a.png"), [{"type": "image", "source": source}],
                      display="A picture")  # fmt: skip
    assert fed(transcript(), result)[1:] == ["  A picture", "  [image: image/png]"]
    kitty = fed(transcript(abilities=Abilities(pictures="kitty")), result)
    assert len(kitty) == 12
    assert "c=40,r=10,m=1;" in kitty[-1]
    assert kitty[-1].count("\x1b_G") == 2
    iterm = fed(transcript(abilities=Abilities(pictures="iterm2")), result)
    assert "width=40;height=10:" in iterm[-1]
    broken = finished(call("Read"), [{"type": "image", "source": source | {"data": "\x1b[2J"}}])
    assert "[image" in fed(transcript(abilities=Abilities(pictures="kitty")), broken)[-1]


def test_each_line_of_a_long_answer_is_in_the_history_once() -> None:
    shown = transcript(80)
    screen = HistoryScreen(80, 24, history=5000)
    stream = Stream(screen)
    text = "".join(f"- item number {i} of it\n" for i in range(1000))
    text += "\n```\n" + "".join(f"code line {i}\n" for i in range(1000)) + "```\n\nend"
    for event in words(text):
        for row in shown.feed(event):
            stream.feed(row + "\r\n")
        assert len(shown.tail(80, 10)) <= 10
    top = ["".join(line[i].data for i in range(80)).strip() for line in screen.history.top]
    seen = [row for row in (*top, *(row.strip() for row in screen.display)) if row]
    assert [row for row in seen if "item" in row] == [
        f"• item number {i} of it" for i in range(1000)
    ]
    assert [row for row in seen if "code" in row] == [f"code line {i}" for i in range(1000)]
    assert seen[-1] == "end"


def test_a_session_that_goes_on_shows_its_end() -> None:
    block = call(command="ls")
    result = finished(block, "a\nb").entry
    turn = [
        {"type": "user", "uuid": "1", "message": {"role": "user", "content": "hello"}},
        {"type": "user", "uuid": "2", "isMeta": True, "message": {"role": "user", "content": "x"}},
        {"type": "assistant", "uuid": "3", "message": {"content": [
            {"type": "thinking", "thinking": "well now"},
            {"type": "text", "text": "So **it** is"}, block]}},
        result | {"uuid": "4"},
        {"type": "system", "uuid": "5", "subtype": "compact_boundary"},
        {"type": "assistant", "uuid": "6", "message": {"content": [block | {"id": "t2"}]}},
    ]  # fmt: skip
    out = transcript().history(turn)
    assert out == [
        "", "> hello", "", "  Thinking: 2 words (ctrl+o to expand)", "", "  So it is", "", "● Bash: ls",
        "  a", "  b", "", "  ── Earlier messages were compacted ──", "", "✗ Bash: ls", "  Interrupted",
    ]  # fmt: skip
    assert transcript().history(turn * 20, rows=120)[0] == "  … 24 earlier messages"
    many = transcript().history(turn * 2000, rows=20)
    assert len(many) == 23
    assert many[:3] == ["  … 11,976 earlier messages", "", "✗ Bash: ls"]
    assert transcript().history(iter(turn), rows=3)[0] == "  … earlier messages not shown"
    assert transcript().history([]) == []


def said(text: str, kind: str = "user", **more: Any) -> dict[str, Any]:
    return {"type": kind, "uuid": text, "message": {"role": kind, "content": text}} | more


def test_a_session_that_goes_on_looks_as_it_did() -> None:
    calls = [call(command="ls -l"), call(command="ls -l") | {"id": "t2"}]
    two = {"type": "assistant", "uuid": "2", "message": {"content": calls}}
    out = transcript().history(
        [
            said("<bash-input>ls</bash-input>"),
            said("<bash-stdout>a</bash-stdout><bash-stderr>b</bash-stderr>"),
            said("<command-message>x</command-message><command-name>/review</command-name>"),
            two,
            said("[Request interrupted by user]"),
            said("[Request interrupted by user]", promptSource="typed"),
        ]
    )
    assert out == [
        "", "> ! ls", "  ab", "", "> /review", "", "✗ Bash: ls -l", "  Interrupted", "✗ Bash: ls -l",
        "  Interrupted", "", "  Interrupted", "", "> [Request interrupted by user]",
    ]  # fmt: skip


def test_of_a_long_thing_its_beginning_stands_above_its_end() -> None:
    answer = "The beginning.\n\n" + "".join(f"- item {n}\n" for n in range(50))
    out = transcript().history([said("go"), said(answer, "assistant")], rows=4)
    assert out == [
        "  … earlier messages not shown", "", "  The beginning.", "  …",
        "  • item 46", "  • item 47", "  • item 48", "  • item 49",
    ]  # fmt: skip


def test_the_whole_answer_goes_out_as_it_is_painted() -> None:
    from clew.fronts.render.markdown import Markdown
    from clew.fronts.render.rows import format_row

    markdown = Markdown(BARE, 58)
    rows = [format_row(row) for row in (*markdown.feed(ANSWER), *markdown.finish())]
    assert fed(transcript(), *words(ANSWER)) == [f"  {row}" if row else "" for row in rows]


def test_prose_is_capped_and_code_and_tables_use_the_width() -> None:
    table = f"| {'a' * 100} | {'b' * 100} |\n|---|---|\n| 1 | 2 |\n"
    text = f"{'word ' * 60}\n\n- {'item ' * 60}\n\n```\n{'x' * 250}\n```\n\n{table}"
    rows = fed(transcript(220), *words(text))
    prose = [row for row in rows if "word" in row or "item" in row]
    assert 90 < max(map(count_cells, prose)) <= 102
    assert max(count_cells(row) for row in rows if "x" in row) == 220
    assert max(count_cells(row) for row in rows if "a" * 10 in row) == 2 + 203
    # In line mode, the terminal wraps lines.
    assert len(transcript(1000, announces=True).history([said("word " * 60, "assistant")])) == 2


def test_a_prompt_is_on_a_band_that_the_terminal_fills() -> None:
    shown = Transcript(60, DARK)
    screen = HistoryScreen(60, 4)
    Stream(screen).feed("\r\n".join(shown.prompt("hello " * 12)[1:]))
    first, second, below = (screen.buffer[row] for row in range(3))
    assert {first[x].bg for x in range(60)} == {second[x].bg for x in range(60)} != {"default"}
    assert {below[x].bg for x in range(60)} == {"default"}
    assert first[59].data == second[59].data == " "
    assert transcript().prompt("hello")[-1] == "> hello"


def test_an_agent_has_a_line_of_its_own_below_the_call_that_began_it() -> None:
    shown = transcript()
    block = call("Agent", description="look", prompt="look around")

    def told(event: EngineEvent, agent: str = "a1", call_id: str = "t1") -> FromAgent:
        return FromAgent(agent_id=agent, kind="explore", description="look", tool_use_id=call_id,
                         event=event)  # fmt: skip

    fed(shown, ToolStarted(block=block, title="Agent: look"))
    fed(shown, told(ThinkingDelta(index=0, thinking="hm")), told(MessageStarted(message={})))
    assert shown.tail(60, 5) == ["○ Agent: look", "  ↳ explore: look · thinking"]
    fed(shown, told(ToolStarted(block=call(command="ls"), title="Bash: ls")))
    assert shown.tail(60, 5)[1] == "  ↳ explore: look · 1 tool call · Bash: ls"
    fed(shown, told(finished(call(command="ls"), "a")), told(TextDelta(index=0, text="Found\nit")))
    assert shown.tail(60, 5)[1] == "  ↳ explore: look · 1 tool call · it"
    assert fed(shown, told(Noticed(messages=("Mind this",)))) == ["! Mind this"]
    fed(shown, told(MessageStarted(message={}), "a3"))
    out = fed(shown, finished(block, [{"type": "text", "text": "It **is** there."}]))
    assert out == ["", "● Agent: look", "  It is there."]
    fed(shown, told(TextDelta(index=0, text="on"), "a2", "elsewhere"))
    assert shown.tail(60, 5) == ["↳ explore: look · on"]
    ended = MessageFinished(message={}, stop_reason="end_turn", complete=True)
    fed(shown, told(ended, "a2", "elsewhere"))
    assert shown.tail(60, 5) == []


def test_an_agent_in_the_background_and_a_refusal_are_told_to_a_person_not_to_the_model() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "Agent", "input": {"description": "look"}}
    raw = {"status": "async_launched", "agentId": "a1"}
    out = fed(transcript(100), finished(block, "Agent a1 works; TaskOutput shows how far.", raw))
    assert out[1:] == [f"  {IN_BACKGROUND.format('a1')}"]
    ended = finished(block | {"name": "Bash"}, describe_user_rejection("not now"), is_error=True)
    ended.entry["toolDenialKind"] = "user-rejected"
    assert fed(transcript(), ended)[1:] == ["  Denied: not now"]


RUNS = (
    "It runs in the background as task s1; what it prints goes to /a/task-s1.txt. TaskOutput shows what "
    "is new, TaskStop ends it, and you are told when it has ended."
)


def test_of_a_command_in_the_background_a_person_reads_its_name_and_what_it_printed() -> None:
    raw = {"stdout": "", "backgroundTaskId": "s1"}
    for name in ("Bash", "Monitor"):
        out = fed(transcript(100), finished(call(name, command="x"), RUNS, raw))
        assert out[1:] == [f"  {IN_BACKGROUND.format('s1')}"]
    left = f"{RUNS}\nThe person had it go on there; it has no limit. So far:\none\ntwo"
    out = fed(transcript(100), finished(call(command="x"), left, raw))
    assert out[1:] == [f"  {IN_BACKGROUND.format('s1')}", "  one", "  two"]
    own = "<bash-stdout>{}</bash-stdout><bash-stderr></bash-stderr>"
    for said, shown in (
        (left, [f"  {IN_BACKGROUND.format('s1')}", "  one", "  two"]),
        ("a", ["  a"]),
    ):
        said = own.format(said)
        entry = {"type": "user", "message": {"role": "user", "content": said}}
        entry["origin"] = {"kind": "shell-output"}
        assert transcript(100).history([entry]) == shown


@pytest.mark.parametrize("name", ["TaskOutput", "TaskStop"])
def test_of_a_task_that_the_model_looks_at_a_person_reads_how_it_stands(name: str) -> None:
    shown, block = transcript(), call(name, task_id="s1")
    told = "Task s1 (shell “x”) has completed.\n(nothing new)"
    assert fed(shown, finished(block, told, display="else"))[1:] == [
        "  Task s1 (shell “x”) has completed. (ctrl+o to expand)"
    ]
    foreign = "<retrieval_status>timeout</retrieval_status>\n\n<task_id>b1</task_id>"
    assert fed(shown, finished(block, foreign))[1:] == ["  3 lines (ctrl+o to expand)"]


def test_a_call_of_long_ago_has_the_title_that_it_had() -> None:
    said = call("Grep", pattern="x", path="src")
    history = [{"type": "assistant", "message": {"role": "assistant", "content": [said]}}]
    titles = {"t1": "Grep: x in src"}
    shown = transcript().history(history, titles=lambda block: titles[block["id"]])
    assert shown[1] == "✗ Grep: x in src"
    # Whose tool is not there, or has but its name to say, is called by what it was given.
    for none in ("", "Grep"):
        assert transcript().history(history, titles=lambda _, none=none: none)[1] == "✗ Grep: x"
    assert transcript().history(history)[1] == "✗ Grep: x"
    told = [ToolStarted(block=call("mcp__a__b", query="q"), title="mcp__a__b")]
    assert fed(transcript(announces=True), *told) == ["● mcp__a__b: q"]


@pytest.mark.parametrize("width", [24, 33, 60])
def test_no_row_of_a_result_is_wider_than_the_screen(width: int) -> None:
    """The terminal breaks a row that is too wide, which displaces everything below it."""
    long = "every word of this stands in one line that is longer than any of the screens here " * 2
    todo = {"content": long, "status": "in_progress", "activeForm": long}
    background = {"status": "async_launched", "agentId": "ab15677c5b5954c65"}
    answers = [
        finished(call("Agent", description=long), long, background),
        finished(call("Agent", description=long), long, {"status": "completed"}),
        finished(call(command=long), long, {"stdout": long}),
        finished(call(command=long), long, is_error=True),
        finished(call(command=long), describe_user_rejection(long), is_error=True),
        finished(call("Read", file_path=long), long, display=long),
        finished(call("Write", file_path=long), long, {"type": "create", "content": long}),
        finished(call("TodoWrite", todos=[todo]), long, {"newTodos": [todo]}),
        finished(call("ExitPlanMode", plan=long), long, {"plan": long}),
        finished(call("mcp__a__b", text=long), long, display=long),
    ]
    for answer in answers:
        rows = fed(transcript(width), ToolStarted(block=answer.block, title=long), answer)
        assert [row for row in rows if count_cells(row) > width] == []


def test_where_nobody_draws_a_tail_calls_and_agents_are_told_of_as_they_begin() -> None:
    shown = transcript(announces=True, see_with="")
    block, other = call(command="ls"), call(command="pwd") | {"id": "t2"}
    assert fed(shown, ToolStarted(block=block, title="Bash: ls")) == ["● Bash: ls"]
    assert fed(shown, finished(block, "a")) == ["  a"]
    fed(
        shown,
        ToolStarted(block=block, title="Bash: ls"),
        ToolStarted(block=other, title="Bash: pwd"),
    )
    assert fed(shown, finished(block, "a")) == ["● Bash: ls", "  a"]
    shown.interrupted()
    assert fed(shown, finished(other, "b")) == ["", "● Bash: pwd", "  b"]
    told = FromAgent(agent_id="a", kind="k", description="look", tool_use_id="t9",
                     event=ToolStarted(block=block, title="Bash: ls"))  # fmt: skip
    assert fed(shown, told) == ["  look: Bash: ls"]


def test_why_the_model_speaks_though_nobody_asked_is_said() -> None:
    def told(words: str, kind: str) -> list[str]:
        entry = {"type": "user", "message": {"content": words}, "origin": {"kind": kind}}
        return fed(transcript(), Recorded(entries=[{"type": "assistant"}, entry]))

    news = "<task-notification>\n<summary>One\n&lt;two></summary>\n</task-notification>"
    assert told(news, "task-notification") == ["! One <two>"]
    assert told("look again", "task-notification") == ["! look again"]
    assert told(news, "human") == []
    said = notice.Notice(
        task_id="m1", kind="monitor", title="log", status="running", lines=("a", "<b>")
    )
    line = "! Background monitor “log”: a <b>"
    assert told(notice.in_words(said), "task-notification") == [line]
    entry = {"type": "user", "message": {"role": "user", "content": notice.in_words(said)}}
    entry["origin"] = {"kind": "task-notification"}
    assert transcript().history([entry]) == ["", line]


def test_a_failure_that_fills_its_rows_is_parted_between_words() -> None:
    said = [f"word{n:04}" for n in range(16)]
    out = fed(transcript(), finished(call(command="x"), " ".join(said), is_error=True))
    assert " ".join(out[1:]).split() == said


def test_a_long_first_line_of_a_failure_is_folded() -> None:
    block = call(command="x")
    out = fed(transcript(), finished(block, "word " * 2000, is_error=True))
    assert out[0] == "✗ Bash: x"
    assert len(out) < 40


def test_agents_that_are_shown_elsewhere_are_not_in_the_live_rows() -> None:
    shown = transcript(shows_agents=False)
    block = call("Agent", description="look", prompt="look around")
    fed(shown, ToolStarted(block=block, title="Agent: look"))
    about = {"agent_id": "a1", "kind": "", "description": "look", "tool_use_id": "t1"}
    fed(shown, FromAgent(event=ToolStarted(block=call(command="ls"), title="Bash"), **about))
    fed(shown, ToolStarted(block=call(command="pwd") | {"id": "t2"}, title="Bash: pwd"))
    assert shown.tail(60, 5) == ["○ Bash: pwd"]


def test_what_a_session_recorded_about_itself_is_one_quiet_line_or_none() -> None:
    def shown(subtype: str, **fields: Any) -> list[str]:
        entry = {"type": "system", "uuid": "1", "subtype": subtype, **fields}
        return transcript().history([entry])

    assert shown("turn_duration", durationMs=62_400) == ["", "  Done in 1m02s"]
    assert shown("turn_duration") == []
    assert shown("memory_saved", writtenPaths=["/a/b.md"]) == ["", "  Memory saved in /a/b.md"]
    assert shown("memory_saved") == []
    assert shown("agents_killed", content="Agent stopped:\x1b[2J it") == [
        "",
        "  Agent stopped:\\x1b[2J it",
    ]
    assert shown("agents_killed") == []
    assert shown("scheduled_task_fire", content="look") == []
    assert shown("api_error", level="error") == []


def test_the_entire_session_is_shown_with_nothing_collapsed() -> None:
    block = call(command="seq 30")
    thought = {"type": "thinking", "thinking": "well now"}
    entries = [
        said("hello"),
        {"type": "assistant", "uuid": "a", "message": {"content": [thought, block]}},
        finished(block, "\n".join(map(str, range(30)))).entry,
        {"type": "assistant", "uuid": "b", "message": {"content": [block | {"id": "t2"}]}},
    ]
    out = list(transcript().whole(entries))
    assert "  well now" in out
    assert [f"  {n}" for n in range(30)] == [row for row in out if row.strip().isdigit()]
    assert "  Interrupted" in out
    shown = transcript()
    fed(shown, ToolStarted(block=block, title="ls"))
    assert "  Interrupted" not in list(shown.whole(entries))
    many = list(transcript().whole([said(str(n)) for n in range(1_100)]))
    assert many[0] == "  … 100 earlier messages"


def test_diffs_are_drawn_between_other_lines() -> None:
    text = "Would change a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+two\n"
    out = transcript().patches(text)
    assert out[0] == "  Would change a.py"
    assert any("one" in row for row in out)
    assert any("two" in row for row in out)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("prompt_too_long", "The prompt is too long. Run /compact, or go back with /rewind."),
        ("failed", "the prompt is too long."),
    ],
)
def test_an_end_says_what_to_do(reason: Any, expected: str) -> None:
    ended = TurnEnded(reason=reason, message="the prompt is too long.")
    assert describe_closing(ended).endswith(expected)


def test_a_connection_that_broke_is_named_plainly() -> None:
    assert describe_failure(Failure(kind="reset", message="peer sent RST")) == "Connection lost"
