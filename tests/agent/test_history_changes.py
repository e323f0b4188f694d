"""Every change of the history, against a service that binds thinking.

Which thinking it still sends.
"""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripts.history_changes import HISTORY_CHANGES, HistoryChange, Keeps, table

from clew.agent.compaction import boundary, micro
from clew.agent.compaction.boundary import make_summary_entry
from clew.agent.tools.base import ToolOutcome
from clew.agent.tools.bash import Bash
from clew.agent.tools.registry import Toolbox
from clew.agent.tools.search_tools import Glob
from clew.agent.tools.spill import fit_result
from clew.agent.tools.user_tools import AskUserQuestion
from clew.core.catalog.lookup import CATALOG
from clew.core.messages import factories
from clew.core.normalize.select import thoughts_of
from clew.providers.request_body import build
from tests.agent.test_preserved_laws import AT, Life, tool

Json = dict[str, Any]


class Turns(Life):
    """A conversation whose model thinks once an answer: thought 1, 2, 3 and so on."""

    def __init__(self, *, has_control: bool) -> None:
        super().__init__(0, max_images=100)
        self.model, self.has_control = "claude-opus-5-5", has_control
        self.will_call = False
        self.box = Toolbox([Bash(), Glob()])
        self.tools = self.box.definitions()
        self.requests = self._requests()

    def wants_call(self) -> bool:
        wanted, self.will_call = self.will_call, False
        return wanted

    def _answer(self, calls: bool) -> list[Any]:
        end = {"tool": "Bash", "id": f"toolu_{self.count}", "input": {}} if calls else "Done."
        return [{"thinking": "Hm."}, end]

    def _result(self, call: str) -> Json:
        block = {"type": "tool_result", "tool_use_id": call, "content": "word " * 1_000}
        return factories.make_user([block], uuid=self.uuid(), at=AT)

    def turn(self, *content: Json, words: str = "go on") -> None:
        said: Any = [{"type": "text", "text": words}, *content] if content else words
        self.story.add([factories.make_user(said, uuid=self.uuid(), at=AT)])
        while self._round():
            pass

    def shown(self) -> set[int]:
        """Return the thinking blocks in the next request, by when they were created."""
        prepared = self._prepared()
        model = CATALOG.entry(self.model)
        built = build(prepared.request, model, betas_allowed=self.has_control)
        judged = self.service.judge(built.body, ",".join(built.betas))
        assert judged.refusal is None
        dropped = {each["path"] for each in judged.dropped}
        return {
            number(block)
            for i, message in enumerate(built.body["messages"])
            for j, block in enumerate(message["content"])
            if block["type"] == "thinking" and f"messages.{i}.content.{j}" not in dropped
        }

    def left(self) -> set[int]:
        """Return the thinking blocks in the conversation."""
        entries = [entry for entry in self.story.sent if entry["type"] == "assistant"]
        return {number(b) for entry in entries for b in thoughts_of(entry["message"]["content"])}

    def entry(self, kind: str, place: int) -> str:
        return str([e for e in self.story.history if e["type"] == kind][place]["uuid"])


def number(block: Json) -> int:
    return int(json.loads(base64.b64decode(block["signature"]))["n"])


def summarised(life: Turns, selection: boundary.Selection) -> None:
    summary = make_summary_entry(["what was said"], uuid=life.uuid(), at=AT)
    entry = boundary.make_boundary(
        selection, uuid=life.uuid(), summary_uuid=summary["uuid"], at=AT, trigger="manual",
        pre_tokens=9, post_tokens=5, dropped_before=0, duration_ms=1, covers={},
    )  # fmt: skip
    life.story.compact(entry, [summary], selection.kept, kept_first=selection.is_before)


def resumed(life: Turns, **changes: Any) -> None:
    for name, value in changes.items():
        setattr(life, name, value)
    life.go_on()


def edited(life: Turns, kind: Any) -> None:
    life.story.edit(life.story.edits.with_one(kind, [life.entry("user", 1)], "in short"))


# What happens behind three turns, the second of which has a call with a long result and an image.


async def rewound(life: Turns) -> None:
    at = [entry["uuid"] for entry in life.story.history].index(life.entry("user", 3))
    life.story = life._story(list(life.story.history)[:at], life.story.edits)
    life.requests = life._requests()


async def forked(life: Turns) -> None:
    resumed(life)


async def elsewhere(life: Turns) -> None:
    resumed(life, system=[{"type": "text", "text": "You are a newer clew."}])


async def other_words(life: Turns) -> None:
    resumed(life, system=[*life.system, {"type": "text", "text": "Be brief."}])


async def on_a_terminal(life: Turns) -> None:
    life.box.gain([AskUserQuestion()])
    resumed(life, tools=life.box.definitions())


async def told_of_memory(life: Turns) -> None:
    life.story.add(
        [
            factories.make_attachment(
                {"type": "date_change"},
                uuid=life.uuid(),
                at=AT,
                rendered=[{"type": "text", "text": "It is Tuesday."}],
                role="user",
            )
        ]
    )


async def other_model(life: Turns) -> None:
    life.model = "claude-fable-5-1"
    life.requests.change(life._template(), life._target())


async def loaded_on_demand(life: Turns) -> None:
    life.tools = [*life.tools, tool("mcp__a__one", is_deferred=life.has_control)]


async def always_loaded(life: Turns) -> None:
    life.tools = [*life.tools, tool("mcp__a__one")]


async def gone(life: Turns) -> None:
    life.box.lose(["Glob"])
    life.tools = life.box.definitions()


async def spilled(life: Turns) -> None:
    result = await fit_result(ToolOutcome(content="x" * 200_000), 1_000, Path("/nowhere"))
    life.story.add([factories.make_user(str(result.content), uuid=life.uuid(), at=AT)])


async def in_files(life: Turns) -> None:
    old = micro.removable(list(life.story.history), recent=0, least_tokens=10)
    references = {one.tool_use_id: "in a file" for one in old}
    life.story.add(
        [
            micro.make_entry(
                references, uuid=life.uuid(), at=AT, trigger="auto", pre_tokens=9, saved=5
            )
        ]
    )


async def excluded(life: Turns) -> None:
    edited(life, "exclude")


async def restored(life: Turns) -> None:
    edited(life, "exclude")
    life.turn()
    life.story.edit(life.story.edits.without(1))


async def pinned(life: Turns) -> None:
    edited(life, "pin")


async def newest_kept(life: Turns) -> None:
    entries = list(life.story.history)
    place = [entry["uuid"] for entry in entries].index(life.entry("user", 3))
    summarised(life, boundary.select_up_to(entries, place))


async def oldest_kept(life: Turns) -> None:
    entries = list(life.story.history)
    place = [entry["uuid"] for entry in entries].index(life.entry("user", 1))
    summarised(life, boundary.select_since(entries, place))


async def undone(life: Turns) -> None:
    summarised(life, boundary.with_tail(list(life.story.history), 0))
    life.turn()
    assert await life.story.uncompact() == ""


async def open_images(life: Turns) -> None:
    life.story.add([factories.make_user(["look", *life._images()], uuid=life.uuid(), at=AT)])
    life.image_refused()


async def older_images(life: Turns) -> None:
    life.image_refused()


ACTS: dict[str, Callable[[Turns], Any]] = {
    "rewind": rewound,
    "fork, resume": forked,
    "resume without the saved system prompt": elsewhere,
    "--append-system-prompt, output style": other_words,
    "resume with -p, then on a terminal": on_a_terminal,
    "memory files, date, git status": told_of_memory,
    "other model": other_model,
    "new MCP tool": loaded_on_demand,
    "new MCP tool, if tools are not loaded on demand": always_loaded,
    "removed tool": gone,
    "long result": spilled,
    "old results moved to files": in_files,
    "/context exclude, summarize": excluded,
    "/context restore": restored,
    "/context pin": pinned,
    "summary": newest_kept,
    "/compact --from": oldest_kept,
    "/compact --undo": undone,
    "rejected images of the current turn": open_images,
    "older images, rejected or too many": older_images,
}
# Where no feature is beta, nothing is loaded on demand, and no model is shown another's thoughts.
WITHOUT_BETAS: dict[str, Keeps] = {"new MCP tool": "none", "other model": "none"}


@pytest.mark.parametrize("has_control", [True, False])
@pytest.mark.parametrize("change", HISTORY_CHANGES, ids=lambda change: change.feature)
async def test_each_change_keeps_the_thinking_blocks_that_the_table_says(
    change: HistoryChange, has_control: bool
) -> None:
    life = Turns(has_control=has_control)
    life.turn()
    life.will_call = True
    life.turn(*life._images()[:1])
    life.turn()
    assert life.shown() == {1, 2, 3, 4}
    await ACTS[change.feature](life)
    life.story.add([factories.make_user("and now?", uuid=life.uuid(), at=AT)])
    keeps = change.keeps if has_control else WITHOUT_BETAS.get(change.feature, change.keeps)
    shown, left = life.shown(), life.left()
    match keeps:
        case "all":
            assert shown == left != set()
        case "before":
            assert 1 in shown
            assert shown < left
        case "none":
            assert shown == set()
            assert left != set()


def test_the_table_says_all_that_is_driven() -> None:
    assert [change.feature for change in HISTORY_CHANGES] == list(ACTS)


def test_the_docs_have_a_row_for_each_change() -> None:
    rows = table().split("\n")
    assert rows[1] == "|---|---|---|"
    assert [row.split(" | ")[0].strip("| ") for row in rows[2:]] == list(ACTS)
