"""`/compact` options and `/context` edits: exclude, summarize, pin and restore messages."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from clew.agent.compaction.boundary import covers
from clew.agent.compaction.boundary import describe_boundary as shown_boundary
from clew.agent.compaction.named_facts import find_dropped, list_facts
from clew.agent.compaction.retelling import cut_middle, is_answered, list_prompts, prompt_text
from clew.core.input import CompactSession, Outcome, Pick, PickRow, Show
from clew.core.json_object import Json
from clew.core.ledger.breakdown import break_down
from clew.core.messages.errors import UserError
from clew.core.messages.text import format_count
from clew.core.normalize.select import KINDS, Kind, is_boundary, select_visible
from clew.parts.memory.excerpt import is_prompt, make_excerpt
from clew.session.context_editing import Editing, Effect, make_filler
from clew.session.session import Session

NOT_COMPACTED = "This conversation has not been compacted"

# `/compact`: parse what to summarize, and show what the last summary replaced.


TITLE_CHARS = 70
LINE_CHARS = 200
COMPACT_USAGE = (
    "/compact [INSTRUCTIONS], /compact --before MESSAGE, /compact --from MESSAGE, /compact --list, "
    "/compact --preview, /compact --show, /compact --check, /compact --undo"
)


async def compact(session: Session, arguments: str) -> Outcome:
    word, _, rest = arguments.strip().partition(" ")
    if not word.startswith("--"):
        return CompactSession(focus=arguments.strip())
    entries = list_prompts(select_visible(list(session.story.history)))
    match word:
        case "--undo":
            return CompactSession(undo=True)
        case "--list":
            return Show(text=listed(entries))
        case "--show":
            return receipt(session)
        case "--preview":
            return preview(session)
        case "--check":
            return check_summary(session)
        case "--before" | "--from":
            name, _, focus = rest.strip().partition(" ")
            message = named(name, entries)
            if not message:
                return Show(
                    text=f"Specify a message number after {word}. /compact --list shows the numbers.",
                    is_error=True,
                )
            up_to, since = (message, None) if word == "--before" else (None, message)
            return CompactSession(focus=focus.strip(), up_to=up_to, since=since)
    return Show(text=f"Unknown option {word}. Usage: {COMPACT_USAGE}", is_error=True)


def listed(entries: Sequence[Json]) -> str:
    """Return the numbered prompts of the conversation, to let the user choose what to summarize."""
    if not entries:
        return "No messages yet"
    return "\n".join(
        f"{number:>4}  {' '.join(cut_middle(prompt_text(entry), TITLE_CHARS).split())}"
        for number, entry in enumerate(entries, 1)
    )


def named(name: str, entries: Sequence[Json]) -> str:
    """Return the ID of the message with this number in the list, or any other name unchanged."""
    if name.isascii() and name.isdecimal() and 0 < int(name) <= len(entries):
        return str(entries[int(name) - 1]["uuid"])
    return name


def receipt(session: Session) -> Outcome:
    history = session.story.history
    if not len(history) or not is_boundary(history[0]):
        return Show(text=NOT_COMPACTED)
    return Show(text=f"{shown_boundary(history[0])}\n/compact --undo restores the messages")


def preview(session: Session) -> Outcome:
    """Show what a summary would replace, without asking the model."""
    sent = session.story.sent
    if not is_answered(sent):
        return Show(text="Nothing to summarize yet")
    facts = covers(sent, todos=session.parts.compaction.todos(), by="")
    parts = break_down(sent)
    lines = [
        f"{format_count(facts['entries'], 'entry', 'entries')}, about "
        f"{sum(part.tokens for part in parts):,} tokens, would be replaced by a summary; "
        "to summarize only a part, use /compact --before or /compact --from"
    ]
    names: dict[str, list[str]] = {}
    for label, name, _ in list_facts(facts):
        names.setdefault(label, []).append(name)
    lines += [f"{label}: {cut_middle(', '.join(of), LINE_CHARS)}" for label, of in names.items()]
    lines.append(
        "/compact summarizes now. Afterward, /compact --check lists what the summary left out."
    )
    return Show(text="\n".join(lines))


def check_summary(session: Session) -> Outcome:
    """Show which files, tasks and decisions the last summary does not mention."""
    dropped_facts = find_dropped(list(session.story.history))
    if dropped_facts is None:
        return Show(text=NOT_COMPACTED)
    count, dropped = dropped_facts
    if not dropped:
        return Show(
            text="The summary mentions every file, task and decision in the messages it replaced "
            f"({count} in total)"
        )
    lines = [f"The summary does not mention {len(dropped)} of {format_count(count, 'fact')}:"]
    lines += [f"  {label}: {cut_middle(name, LINE_CHARS)}" for label, name in dropped]
    lines.append(
        "/compact --undo restores the messages; /compact INSTRUCTIONS tells the model what to keep"
    )
    return Show(text="\n".join(lines))


SHORT = 8
SHOWN_CHARACTERS = 60
NOW = "now"
CONTEXT_USAGE = (
    "messages | edits | exclude FROM [TO] | summarize FROM [TO] | pin FROM [TO] | restore NUMBER; "
    "FROM and TO are prefixes of message IDs, and a prompt without TO selects its whole turn"
)
# Transcripts spell one kind of edit in another way than commands.
COMMANDS: dict[Kind, str] = {"exclude": "exclude", "summarise": "summarize", "pin": "pin"}
DONE: dict[Kind, str] = {
    "exclude": "excluded from requests",
    "summarise": "replaced by a summary",
    "pin": "pinned (kept verbatim by compaction)",
}


async def edit(session: Session, arguments: str) -> Outcome:
    word, *words = arguments.split()
    kind = next((kind for kind in KINDS if word in (kind, COMMANDS[kind])), None)
    is_now = NOW in words
    names = [name for name in words if name != NOW]
    if kind is not None and 0 < len(names) < 3:
        return await _edited(Editing(session), session, kind, names, is_now=is_now)
    if word not in WORDS:
        raise UserError(CONTEXT_USAGE)
    return await WORDS[word](session, words)


async def _edited(
    editing: Editing, session: Session, kind: Kind, names: Sequence[str], *, is_now: bool
) -> Outcome:
    uuids = editing.range(names[0], names[1] if len(names) > 1 else "")
    line = f"/context {COMMANDS[kind]} {' '.join(names)} {NOW}"
    chosen = [entry for entry in editing.shown() if entry["uuid"] in set(uuids)]
    words = make_filler(sum(part.tokens for part in break_down(chosen)))
    effect = editing.effect(
        editing.edits_with(kind, uuids, words if kind == "summarise" else ""), uuids
    )
    if not is_now:
        text = shown(effect, session, is_about=kind == "summarise")
        rows = (
            PickRow(line=line, label=f"{format_count(effect.entries, 'message')} {DONE[kind]}"),
        )
        return Pick(title="Apply", rows=rows, text=text)
    if effect.problems:
        raise UserError(f"the API would reject the request: {'; '.join(effect.problems)}")
    edits = editing.edits_with(
        kind, uuids, await editing.summary(uuids) if kind == "summarise" else ""
    )
    editing.apply(edits)
    number = edits.edits[-1].number
    return Show(
        text=f"Edit {number}: {format_count(effect.entries, 'message')} {DONE[kind]}. "
        f"Undo with /context restore {number}"
    )


def shown(effect: Effect, session: Session, *, is_about: bool = False) -> str:
    """Describe the effect of an edit for the user."""
    window = session.model.context_window
    of = f" of {window:,}" if window else ""
    about = "about " if is_about else ""
    cost = "" if effect.anew_usd is None else f", ${effect.anew_usd:.4f}"
    lines = [
        f"range: {format_count(effect.entries, 'message')}, about {effect.range_tokens:,} tokens",
        f"size: {effect.before_tokens:,} -> {about}{effect.after_tokens:,}{of} tokens",
        f"cache: {effect.cached_tokens:,} tokens before the range stay cached; "
        f"{about}{effect.anew_tokens:,} will be sent and cached again{cost}",
        "validity: " + ("; ".join(effect.problems) or "the request stays valid"),
    ]
    if effect.thoughts:
        are = format_count(effect.thoughts, "thinking block")
        lines.append(f"thinking: {are} after the range will no longer be shown to the model")
    if effect.repairs:
        lines.append(f"repairs: {'; '.join(effect.repairs)}")
    return "\n".join(lines)


async def _messages(session: Session, _: Sequence[str]) -> Outcome:
    by_uuid = session.story.edits.by_uuid
    lines = []
    for entry in Editing(session).shown():
        edit = by_uuid.get(entry["uuid"])
        mark = "" if edit is None else f" [{edit.number}: {COMMANDS[edit.kind]}]"
        words = " ".join(make_excerpt([entry]).split())[:SHOWN_CHARACTERS]
        tokens = sum(part.tokens for part in break_down([entry]))
        start = ">" if is_prompt(entry) else " "
        lines.append(f"{start} {entry['uuid'][:SHORT]} {tokens:>8,}  {words}{mark}")
    return Show(text="\n".join(lines) or "No messages yet")


async def _edits(session: Session, _: Sequence[str]) -> Outcome:
    lines = [
        f"{edit.number:>3}  {COMMANDS[edit.kind]}  {format_count(len(edit.uuids), 'message')}"
        f" from {edit.uuids[0][:SHORT]}"
        for edit in session.story.edits.edits
        if edit.uuids
    ]
    return Show(text="\n".join(lines) or "The conversation has no edits")


async def _restore(session: Session, words: Sequence[str]) -> Outcome:
    is_now, names = NOW in words, [name for name in words if name != NOW]
    number = int(names[0]) if len(names) == 1 and names[0].isdecimal() else -1
    edit = session.story.edits.find(number)
    if edit is None:
        raise UserError("edit not found; run /context edits for a list")
    editing = Editing(session)
    edits = session.story.edits.without(number)
    if not is_now:
        row = PickRow(
            line=f"/context restore {number} {NOW}", label="restore the original messages"
        )
        text = shown(editing.effect(edits, edit.uuids), session)
        return Pick(title="Apply", rows=(row,), text=text)
    editing.apply(edits)
    return Show(text=f"Edit {number} undone")


Word: TypeAlias = Callable[[Session, Sequence[str]], Awaitable[Outcome]]
WORDS: dict[str, Word] = {"messages": _messages, "edits": _edits, "restore": _restore}
