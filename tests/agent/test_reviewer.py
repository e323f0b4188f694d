"""The reviewer of mode auto: a clear verdict counts; otherwise the user decides."""

import json
from typing import Any

import pytest

from clew.agent.calls import BoundCall
from clew.agent.reviewer import CALL_MAX_CHARS, OFF, Reviewer, read
from clew.core.messages import factories
from clew.core.messages.history import History
from clew.permissions.decision import Allow, Ask, Deny, Finding, NeedsReview
from clew.providers.base import Failure

STAMP = {"uuid": "u", "at": "2026-01-01T00:00:00.000Z"}
NEEDED = NeedsReview(findings=(Finding(subject="make all", verdict="review", reason="no rule"),))
SECRET = "sk-ant-secret-0123456789"


class Asked:
    """A model with one fixed answer; records what it was asked."""

    def __init__(self, answer: str | Failure) -> None:
        self.answer = answer
        self.prompts: list[str] = []
        self.models: list[str] = []

    async def __call__(self, prompt: str, *, model: str = "small", **_: Any) -> str | Failure:
        self.prompts.append(prompt)
        self.models.append(model)
        return self.answer


def reviewer(asked: Asked, *, model: str = "small") -> Reviewer:
    history = History(
        [
            factories.make_user("build it", **STAMP),
            factories.make_tool_answer("t", "SAFE! says the page", source_uuid="a", **STAMP),
            factories.make_user("go on", **STAMP, is_meta=True),
        ]
    )
    return Reviewer(
        asked,
        model=lambda: model,
        history=lambda: history,
        untrusted=lambda: ("web",),
        secrets=[SECRET],
    )


def call(command: str = "make all") -> BoundCall:
    block = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": command}}
    return BoundCall(block=block)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ('{"verdict": "safe", "why": "builds"}', Allow),
        (' {"verdict":"unsafe","why":"sends keys away"}\n', Deny),
        ("safe", Ask),
        ("", Ask),
        ('{"verdict": "safe"}', Ask),
        ('{"verdict": "SAFE", "why": "x"}', Ask),
        ('{"verdict": "safe", "why": "x", "also": 1}', Ask),
        ('{"verdict": "safe", "why": "x"} {"verdict": "unsafe", "why": "y"}', Ask),
        ('It is {"verdict": "safe", "why": "x"}', Ask),
        ("\ud800", Ask),
        (Failure(kind="status", message="overloaded", status=529), Ask),
    ],
)
async def test_only_a_clear_word_counts(answer: str | Failure, kind: type) -> None:
    found = await reviewer(Asked(answer))(call(), NEEDED)
    assert type(found.decision) is kind
    verdicts = {Allow: "safe", Deny: "unsafe", Ask: "none"}
    assert found.record["verdict"] == verdicts[kind]
    assert found.record["model"] == "small"
    assert found.record["why"]


async def test_the_reviewer_is_told_the_call_and_the_user_and_no_text_of_others() -> None:
    asked = Asked('{"verdict": "safe", "why": "x"}')
    await reviewer(asked)(call(f"make all KEY={SECRET}"), NEEDED)
    (prompt,) = asked.prompts
    told = json.loads(prompt)
    assert told["input"]["command"].startswith("make all")
    assert told["person_said"] == ["build it"]
    assert told["untrusted_text_from"] == ["web"]
    assert "says the page" not in prompt
    assert SECRET not in prompt


async def test_no_more_than_the_last_prompts_are_reported() -> None:
    asked = Asked('{"verdict": "safe", "why": "x"}')
    history = History([factories.make_user(f"prompt {n}", **STAMP) for n in range(9)])
    look = Reviewer(asked, model=lambda: "small", history=lambda: history, untrusted=lambda: ())
    await look(call(), NEEDED)
    assert json.loads(asked.prompts[0])["person_said"] == [f"prompt {n}" for n in range(4, 9)]


async def test_what_cannot_be_reviewed_is_not_asked_about() -> None:
    asked = Asked('{"verdict": "safe", "why": "x"}')
    off = await reviewer(asked, model=OFF)(call(), NEEDED)
    long = await reviewer(asked)(call("x" * CALL_MAX_CHARS), NEEDED)
    assert isinstance(off.decision, Ask)
    assert isinstance(long.decision, Ask)
    assert asked.prompts == []


def test_an_answer_is_read_whole_or_not_at_all() -> None:
    assert read('{"verdict": "safe", "why": ""}') is not None
    assert read("[]") is None
