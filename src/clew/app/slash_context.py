"""`/context WORD ...`: ranges of the conversation out of requests, put short, held fast, and back. Loaded when typed."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from clew.app.context_editing import Editing, Effect, about_summary, excerpt, is_prompt
from clew.app.session import Session
from clew.commands.outcome import Outcome, Pick, Row, Show
from clew.messages.counts import count_of
from clew.messages.errors import UserError
from clew.normalize.edits import KINDS, Kind
from clew.session.breakdown import breakdown

SHORT = 8
SHOWN_CHARACTERS = 60
NOW = "now"
USAGE = (
    "messages | edits | exclude FROM [TO] | summarise FROM [TO] | pin FROM [TO] | restore NUMBER; "
    "FROM and TO are the beginnings of messages' ids, and a prompt alone means its turn"
)
DONE: dict[Kind, str] = {
    "exclude": "left out of requests",
    "summarise": "put short in requests",
    "pin": "held fast: compactions keep it word for word",
}


async def edit(session: Session, arguments: str) -> Outcome:
    word, *more = arguments.split()
    kind = next((known for known in KINDS if known == word), None)
    is_now = NOW in more
    names = [name for name in more if name != NOW]
    if kind is not None and 0 < len(names) < 3:
        return await _edited(Editing(session), session, kind, names, is_now=is_now)
    if word not in WORDS:
        raise UserError(USAGE)
    return await WORDS[word](session, more)


async def _edited(
    editing: Editing, session: Session, kind: Kind, names: Sequence[str], *, is_now: bool
) -> Outcome:
    uuids = editing.range(names[0], names[1] if len(names) > 1 else "")
    line = f"/context {kind} {' '.join(names)} {NOW}"
    chosen = [entry for entry in editing.shown() if entry["uuid"] in set(uuids)]
    words = about_summary(sum(part.tokens for part in breakdown(chosen)))
    effect = editing.effect(
        editing.edits_with(kind, uuids, words if kind == "summarise" else ""), uuids
    )
    if not is_now:
        text = shown(effect, session, is_about=kind == "summarise")
        rows = (Row(line=line, label=f"{count_of(effect.entries, 'message')} {DONE[kind]}"),)
        return Pick(title="do it", rows=rows, text=text)
    if effect.problems:
        raise UserError(f"the request would be refused: {'; '.join(effect.problems)}")
    edits = editing.edits_with(
        kind, uuids, await editing.summary(uuids) if kind == "summarise" else ""
    )
    editing.apply(edits)
    number = edits.edits[-1].number
    return Show(
        text=f"edit {number}: {count_of(effect.entries, 'message')} {DONE[kind]}; "
        f"/context restore {number} takes it back"
    )


def shown(effect: Effect, session: Session, *, is_about: bool = False) -> str:
    """What an edit would change, for a person."""
    window = session.model.context_window
    of = f" of {window:,}" if window else ""
    about = "about " if is_about else ""
    cost = "" if effect.anew_usd is None else f", ${effect.anew_usd:.4f}"
    lines = [
        f"range: {count_of(effect.entries, 'message')}, about {effect.range_tokens:,} tokens",
        f"size: {effect.before_tokens:,} -> {about}{effect.after_tokens:,}{of} tokens",
        f"cache: {effect.cached_tokens:,} tokens before it stay as they are; "
        f"{about}{effect.anew_tokens:,} are sent and cached anew{cost}",
        "validity: " + ("; ".join(effect.problems) or "the request stays one that the API takes"),
    ]
    if effect.thoughts:
        are = count_of(effect.thoughts, "thought", "thoughts")
        lines.append(f"thoughts: {are} after it will no longer be shown to the model")
    if effect.repairs:
        lines.append(f"mended for it: {'; '.join(effect.repairs)}")
    return "\n".join(lines)


async def _messages(session: Session, _: Sequence[str]) -> Outcome:
    by_uuid = session.story.edits.by_uuid
    lines = []
    for entry in Editing(session).shown():
        edit = by_uuid.get(entry["uuid"])
        mark = "" if edit is None else f" [{edit.number}: {edit.kind}]"
        words = " ".join(excerpt([entry]).split())[:SHOWN_CHARACTERS]
        tokens = sum(part.tokens for part in breakdown([entry]))
        start = ">" if is_prompt(entry) else " "
        lines.append(f"{start} {entry['uuid'][:SHORT]} {tokens:>8,}  {words}{mark}")
    return Show(text="\n".join(lines) or "nothing was said yet")


async def _edits(session: Session, _: Sequence[str]) -> Outcome:
    lines = [
        f"{edit.number:>3}  {edit.kind}  {count_of(len(edit.uuids), 'message')} from {edit.uuids[0][:SHORT]}"
        for edit in session.story.edits.edits
        if edit.uuids
    ]
    return Show(text="\n".join(lines) or "nothing of the conversation is edited")


async def _restore(session: Session, more: Sequence[str]) -> Outcome:
    is_now, names = NOW in more, [name for name in more if name != NOW]
    number = int(names[0]) if len(names) == 1 and names[0].isdecimal() else -1
    found = session.story.edits.find(number)
    if found is None:
        raise UserError("there is no such edit; /context edits lists them")
    editing = Editing(session)
    edits = session.story.edits.without(number)
    if not is_now:
        row = Row(line=f"/context restore {number} {NOW}", label="as it was said")
        text = shown(editing.effect(edits, found.uuids), session)
        return Pick(title="do it", rows=(row,), text=text)
    editing.apply(edits)
    return Show(text=f"edit {number} is taken back")


Word: TypeAlias = Callable[[Session, Sequence[str]], Awaitable[Outcome]]
WORDS: dict[str, Word] = {"messages": _messages, "edits": _edits, "restore": _restore}
