"""Responses with parallel calls, as the reference client interleaves their blocks and results."""

from pathlib import Path
from random import Random
from typing import Any

from clew.core.normalize.for_api import for_api
from clew.core.normalize.target import Target
from clew.record.transcript.check import check
from clew.record.transcript.load import load
from tests.record.transcript.build import (
    SESSION,
    call,
    entry,
    last_prompt,
    names,
    result,
    said,
    user,
    write,
)
from tests.requirements import requirement

Lines = list[dict[str, Any]]
HOOK = {"type": "hook_success", "hookName": "PreToolUse"}


class Interleaving:
    """A random session: each block's parent is the line before it, each result's is its call."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.lines: Lines = []
        self.live: list[str] = []
        self.last: str | None = None
        prompts: list[tuple[str, int]] = []
        for _ in range(self.chance.randint(1, 4)):
            if prompts and self.chance.random() < 0.3:
                self.last, length = self.chance.choice(prompts)
                self.lines.append(last_prompt(self.last, explicit=True))
                del self.live[length:]
                prompts = [prompt for prompt in prompts if prompt[1] < length]
            elif self.last:
                prompts.append((self.last, len(self.live)))
            self.add("u", lambda name, last: user(name, last, promptSource="typed"))
            for _ in range(self.chance.randint(1, 3)):
                self.answer()

    def add(self, letter: str, make: Any, parent: str | None = None) -> str:
        name = f"{letter}{len(self.lines)}"
        self.lines.append(make(name, parent or self.last))
        self.live.append(name)
        self.last = name
        return name

    def answer(self) -> None:
        answer = f"m{len(self.lines)}"
        blocks = ["text"] * self.chance.randint(0, 1) + ["call"] * self.chance.randint(1, 6)
        running: list[str] = []
        while blocks or running:
            if blocks and (not running or self.chance.random() < 0.5):
                if blocks.pop(0) == "text":
                    self.add("b", lambda name, last: said(name, last, of=answer))
                    continue
                running.append(
                    self.add("t", lambda name, last: said(name, last, call(name), of=answer))
                )
            else:
                tool = running.pop(self.chance.randrange(len(running)))
                self.add("r", lambda name, last, tool=tool: result(name, last, tool), tool)
            if self.chance.random() < 0.15:
                self.add("x", lambda name, last: entry("attachment", name, last, attachment=HOOK))


@requirement("R251")
def test_no_interleaving_loses_a_call_a_result_or_an_attachment(tmp_path: Path) -> None:
    for seed in range(100):
        made = Interleaving(seed)
        loaded = load(write(tmp_path, made.lines))
        live = names(loaded.messages).split()
        assert sorted(live) == sorted(made.live), seed
        spoken = [name for name in live if name[0] in "ubt"]
        assert spoken == [name for name in made.live if name[0] in "ubt"], seed
        request = for_api(loaded.messages, Target())
        assert [*request.violations, *request.repairs] == [], seed
        found = check(loaded.chain, loaded.messages, loaded.line_notes, session_id=SESSION)
        assert [str(rule) for rule in found if rule.severity != "note"] == [], seed


@requirement("R251")
def test_an_attachment_that_another_branch_continues_from_belongs_to_that_branch(
    tmp_path: Path,
) -> None:
    lines = [
        user("u1", None, promptSource="typed"),
        said("t1", "u1", call("t1"), of="m"),
        said("t2", "t1", call("t2"), of="m"),
        result("r1", "t1", "t1"),
        entry("attachment", "x", "r1", attachment=HOOK),
        user("u2", "x", promptSource="typed"),
        result("r2", "t2", "t2"),
        said("b3", "r2", of="m2"),
    ]
    live = names(load(write(tmp_path, lines)).messages).split()
    assert sorted(live) == sorted(["u1", "t1", "t2", "r1", "r2", "b3"])
