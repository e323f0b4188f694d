"""Asks the person for permission: what, why, and what the answers mean."""

import json
from typing import Any, TypeAlias

from clew.engine.deps import Granted, Question, Refused, Verdict
from clew.messages.errors import SettingsError, in_words
from clew.messages.wording import rejected_by_user
from clew.permissions.in_session import SessionRules
from clew.permissions.offers import Offer, offers
from clew.permissions.request import Request
from clew.tui.keyboard import Keyboard
from clew.tui.telling import Telling, visible

Json: TypeAlias = dict[str, Any]
YES = ("y", "yes")
NO = ("", "n", "no")
# The letter of an offer that ends with the session, and of one that is kept.
FOR_NOW, KEPT = "s", "a"
REASON = "  n = no; anything else = no, and this is why: "
NOT_YET = "! kept, and it counts in later sessions once this folder is trusted: clew config trust"
PLAN_CHOICES = "  y = begin; n = stop here; anything else = go on planning, and this is why: "


class Questions:
    """`rules` are those of the session, from its start on."""

    def __init__(self, keyboard: Keyboard, telling: Telling) -> None:
        self._keyboard = keyboard
        self._telling = telling
        self.rules: SessionRules | None = None

    async def ask(self, question: Question) -> Verdict:
        """One call, one answer. No answer is a no that ends the turn."""
        match question.kind:
            case "choices":
                return await self._choices(question.block["input"])
            case "plan":
                return await self._plan(question.body)
            case "permission":
                return await self._permission(question)

    async def _choices(self, given: Json) -> Verdict:
        """Every question in turn; a number, several, or words of the person's own."""
        answers: dict[str, str] = {}
        for asked in given["questions"]:
            labels = [str(option["label"]) for option in asked["options"]]
            self._telling.line(f"? {visible(str(asked['question']))}")
            for number, option in enumerate(asked["options"], 1):
                told = f": {option['description']}" if option.get("description") else ""
                self._telling.line(visible(f"    {number} = {option['label']}{told}"))
            several = ", several with commas" if asked.get("multiSelect") else ""
            line = await self._keyboard.line(f"  a number{several}, or your own words: ")
            if line is None or not line.strip():
                return Refused(words=rejected_by_user(), stop=True)
            answers[asked["question"]] = chosen(
                line.strip(), labels, several=bool(asked.get("multiSelect"))
            )
        return Granted(input=given | {"answers": answers})

    async def _plan(self, plan: str) -> Verdict:
        self._telling.line("? The plan:")
        self._telling.line(visible(plan))
        answer = await self._keyboard.line(PLAN_CHOICES)
        if answer is None or answer.strip().lower() in NO:
            return Refused(words=rejected_by_user(), stop=True)
        if answer.strip().lower() in YES:
            return Granted()
        return Refused(words=rejected_by_user(f"keep planning: {answer.strip()}"))

    async def _permission(self, question: Question) -> Verdict:
        whose = f"agent “{visible(question.agent)}”: " if question.agent_id else ""
        self._telling.line(
            f"? {whose}{question.block['name']} wants to run, and asks: {question.why}"
        )
        self._telling.line(visible(whole(question.block["input"])))
        offered = self._offered(question)
        self._telling.line("  y = yes, this once")
        for letter, offer in offered.items():
            self._telling.line(visible(f"  {letter} = yes, and {offer.words}"))
        answer = await self._keyboard.line(REASON)
        if answer is None:
            return Refused(words=rejected_by_user(), stop=True)
        words = answer.strip()
        if words.lower() in offered:
            self._take(offered[words.lower()])
            return Granted()
        if words.lower() in YES:
            return Granted()
        if words.lower() in NO:
            return Refused(words=rejected_by_user(), stop=True)
        return Refused(words=rejected_by_user(words))

    def _offered(self, question: Question) -> dict[str, Offer]:
        if self.rules is None:
            return {}
        request = Request(tool=question.block["name"], input=question.block["input"])
        found = offers(request, question.decision, self.rules.mode)
        return {KEPT if offer.is_kept else FOR_NOW: offer for offer in found}

    def _take(self, offer: Offer) -> None:
        """What cannot be kept is said; the call itself was permitted all the same."""
        assert self.rules is not None
        try:
            self.rules.update([offer.update])
        except (SettingsError, OSError) as error:
            self._telling.line(f"! {in_words(error)}")
            return
        if offer.is_kept and not self.rules.standing.is_trusted:
            self._telling.line(NOT_YET)


def whole(given: Json) -> str:
    """Every field of the input, none shortened: a person answers for all of it."""
    lines = []
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines += [f"    {name}: {line}" for line in text.split("\n")]
    return "\n".join(lines)


def chosen(line: str, labels: list[str], *, several: bool) -> str:
    """The answers that numbers stand for; whatever is no number of an answer is an answer itself."""
    parts = [part.strip() for part in line.split(",")] if several else [line]
    if not all(part.isdecimal() and 1 <= int(part) <= len(labels) for part in parts):
        return line
    return ", ".join(labels[int(part) - 1] for part in parts)
