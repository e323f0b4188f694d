"""What a person may answer when asked for permission, and what becomes of it: the same for every screen."""

import json
from typing import Any, TypeAlias

from clew.engine.deps import Question
from clew.messages.errors import SettingsError, in_words
from clew.permissions.in_session import SessionRules
from clew.permissions.offers import Offer, offers
from clew.permissions.request import Request

Json: TypeAlias = dict[str, Any]
# The letter of an offer that ends with the session, and of one that is kept.
FOR_NOW, KEPT = "s", "a"
NOT_YET = "kept, and it counts in later sessions once this folder is trusted: clew config trust"


def offered(question: Question, rules: SessionRules | None) -> dict[str, Offer]:
    """By the letter that takes it: what holds for more than this call."""
    if rules is None:
        return {}
    request = Request(tool=question.block["name"], input=question.block["input"])
    found = offers(request, question.decision, rules.mode, is_trusted=rules.standing.is_trusted)
    return {KEPT if offer.is_kept else FOR_NOW: offer for offer in found}


def take(offer: Offer, rules: SessionRules) -> str:
    """Has the offer hold from now on. What cannot be kept is said; the call itself is permitted all the same."""
    try:
        rules.update([offer.update])
    except (SettingsError, OSError) as error:
        return in_words(error)
    return NOT_YET if offer.is_kept and not rules.standing.is_trusted else ""


def whole(given: Json) -> str:
    """Every field of the input, none shortened: a person answers for all of it."""
    lines = []
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines += [f"    {name}: {line}" for line in text.split("\n")]
    return "\n".join(lines)
