"""What a person may answer beyond yes and no: the same for longer, as updates of the rules. Pure."""

from msgspec import Struct

from clew.permissions.decision import Decision
from clew.permissions.files import OUTSIDE
from clew.permissions.request import Mode, Request, tool_of
from clew.permissions.suggest import strict, suggestions
from clew.permissions.updates import Destination, ModeUpdate, RuleSpelled, RulesUpdate, Update


class Offer(Struct, frozen=True, kw_only=True):
    """An answer that holds for more than this call. `is_kept`: written to a settings file."""

    words: str
    update: Update
    is_kept: bool = False


def offers(
    request: Request, decision: Decision, mode: Mode, *, is_trusted: bool
) -> tuple[Offer, ...]:
    """None where every call of the kind wants a person: what is protected, what a rule asks about.
    `is_trusted`: what the folder's own settings permit counts."""
    rules = suggestions(request, decision)
    if rules:
        listed = ", ".join(rules)
        when = "" if is_trusted else " once you trust it"
        return (
            Offer(words=f"for this session: {listed}", update=allowing(rules, "session")),
            Offer(
                words=f"always in this project{when}: {listed}",
                update=allowing(rules, "localSettings"),
                is_kept=True,
            ),
        )
    edits = tool_of(request.tool).family == "edit" and mode == "default"
    inside = all(f.nature == "base" and f.reason != OUTSIDE for f in strict(decision))
    if edits and inside:
        update = ModeUpdate(type="setMode", mode="acceptEdits", destination="session")
        return (Offer(words="edits in the workspace, for this session", update=update),)
    return ()


def allowing(rules: list[str], destination: Destination) -> RulesUpdate:
    return RulesUpdate(
        type="addRules",
        rules=tuple(RuleSpelled.of(rule) for rule in rules),
        behavior="allow",
        destination=destination,
    )
