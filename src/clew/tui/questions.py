"""Asks the person for permission: what, why, and what the answers mean."""

import json
from typing import Any, TypeAlias

from clew.engine.deps import Granted, Question, Refused, Verdict
from clew.messages.wording import rejected_by_user
from clew.tui.keyboard import Keyboard
from clew.tui.telling import Telling, visible

Json: TypeAlias = dict[str, Any]
YES = ("y", "yes")
NO = ("", "n", "no")
CHOICES = "  y = yes, this once; n = no; anything else = no, and this is why: "


class Questions:
    def __init__(self, keyboard: Keyboard, telling: Telling) -> None:
        self._keyboard = keyboard
        self._telling = telling

    async def ask(self, question: Question) -> Verdict:
        """One call, one answer. No answer is a no that ends the turn."""
        self._telling.line(f"? {question.block['name']} wants to run, and asks: {question.why}")
        self._telling.line(visible(whole(question.block["input"])))
        answer = await self._keyboard.line(CHOICES)
        if answer is None:
            return Refused(words=rejected_by_user(), stop=True)
        words = answer.strip()
        if words.lower() in YES:
            return Granted()
        if words.lower() in NO:
            return Refused(words=rejected_by_user(), stop=True)
        return Refused(words=rejected_by_user(words))


def whole(given: Json) -> str:
    """Every field of the input, none shortened: a person answers for all of it."""
    lines = []
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines += [f"    {name}: {line}" for line in text.split("\n")]
    return "\n".join(lines)
