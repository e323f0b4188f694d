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


class Questions:
    """`rules` are those of the session, from its start on."""

    def __init__(self, keyboard: Keyboard, telling: Telling) -> None:
        self._keyboard = keyboard
        self._telling = telling
        self.rules: SessionRules | None = None

    async def ask(self, question: Question) -> Verdict:
        """One call, one answer. No answer is a no that ends the turn."""
        self._telling.line(f"? {question.block['name']} wants to run, and asks: {question.why}")
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
