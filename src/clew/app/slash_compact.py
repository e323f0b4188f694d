"""`/compact`: what is to be summarised, by the words behind it; what the last summary stands for."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from clew.app.session import Session
from clew.commands.outcome import Compact, Outcome, Show
from clew.compaction.receipt import shown
from clew.compaction.retelling import cut, prompt_text, prompts
from clew.normalize.select import is_boundary, visible

Json: TypeAlias = dict[str, Any]

TITLE_CHARS = 70
USAGE = (
    "/compact [WHAT MATTERS], /compact --before MESSAGE, /compact --from MESSAGE, /compact --list, "
    "/compact --show, /compact --undo"
)


async def compact(session: Session, arguments: str) -> Outcome:
    word, _, rest = arguments.strip().partition(" ")
    if not word.startswith("--"):
        return Compact(focus=arguments.strip())
    said = prompts(visible(list(session.story.history)))
    match word:
        case "--undo":
            return Compact(undo=True)
        case "--list":
            return Show(text=listed(said))
        case "--show":
            return receipt(session)
        case "--before" | "--from":
            name, _, focus = rest.strip().partition(" ")
            message = named(name, said)
            if not message:
                return Show(
                    text=f"{word} which message? /compact --list numbers them", is_error=True
                )
            up_to, since = (message, None) if word == "--before" else (None, message)
            return Compact(focus=focus.strip(), up_to=up_to, since=since)
    return Show(text=f"{word} is not known here: {USAGE}", is_error=True)


def listed(said: Sequence[Json]) -> str:
    """The prompts of the conversation by number, for those who summarise a part of it."""
    if not said:
        return "nothing was said yet"
    return "\n".join(
        f"{number:>4}  {' '.join(cut(prompt_text(entry), TITLE_CHARS).split())}"
        for number, entry in enumerate(said, 1)
    )


def named(name: str, said: Sequence[Json]) -> str:
    """The id of the message with this number in the list, or the name itself."""
    if name.isascii() and name.isdecimal() and 0 < int(name) <= len(said):
        return str(said[int(name) - 1]["uuid"])
    return name


def receipt(session: Session) -> Outcome:
    history = session.story.history
    if not len(history) or not is_boundary(history[0]):
        return Show(text="nothing was summarised in this conversation")
    return Show(text=f"{shown(history[0])}\n/compact --undo takes it back")
