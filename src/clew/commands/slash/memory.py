"""`/memory` and `/remember`: the memory in effect, where notes are saved, and proposals."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from clew.agent.context.memory import FileCache, MemoryGate, find_sources, load_memory
from clew.agent.context.notebook import INDEX, Memo, MemoryNotebook
from clew.agent.intake import NOTES, find_notes_file
from clew.commands.memory import describe_origin, measure
from clew.commands.slash import SlashHandlers, show_page
from clew.core.input import Outcome, Pick, PickRow, Show
from clew.core.messages.errors import UserError
from clew.core.messages.text import format_count
from clew.core.page import PageGroup, PageRow, ReportPage, pairs
from clew.parts.memory.remembering import keep_words, notebook_of, propose_memos
from clew.permissions.in_session import of_own
from clew.session.session import Session
from clew.system.config.load import assign

ALL = "all"
USAGE = f"to {' | '.join(NOTES)}, list, show NAME, forget NAME, review, accept NAME | all, drop NAME | all"


async def memory(session: Session, arguments: str) -> Outcome:
    word, *names = arguments.split() or [""]
    if not word:
        return _overview(session)
    if word not in WORDS or len(names) > 1:
        raise UserError(USAGE)
    return await WORDS[word](session, names)


async def remember(session: Session, words: str) -> Outcome:
    if words.strip():
        path = keep_words(session.rules.standing.places, session.session_id, words)
        session.intake.remembered(path, words.strip())
        return Show(text=f"Saved in {path}")
    memos = await propose_memos(
        session.story,
        session.model_access.ask,
        session.rules.standing.places,
        session.session_id,
    )
    if not memos:
        return Show(text="Found nothing new to remember")
    return _review(memos)


def _overview(session: Session) -> Show:
    standing = session.rules.standing
    gate = MemoryGate(lambda: standing)
    memory = load_memory(find_sources(standing.environ, standing.places.cwd, gate), FileCache())
    notebook = notebook_of(standing.places)
    index, is_cut = notebook.index()
    files = [
        PageRow(
            label=row.path, cells=(f"{row.tokens:,}",), note=f"{row.layer}{describe_origin(row)}"
        )
        for row in map(measure, memory.files)
    ]
    total = sum(measure(file).tokens for file in memory.files)
    groups = [
        PageGroup(
            title="Loaded at the start, in this order",
            columns=("tokens",),
            rows=tuple(files) or (PageRow(label="none", note="/init creates a memory file"),),
        )
    ]
    if memory.rules:
        rules = [
            (row.path, f"{row.layer}{describe_origin(row)}") for row in map(measure, memory.rules)
        ]
        groups.append(pairs(rules, "Rules that load when a matching file is read"))
    if memory.skipped:
        groups.append(pairs([(skip.path, skip.why) for skip in memory.skipped], "Skipped"))
    loaded = format_count(len(index.splitlines()), "line is", "lines are")
    notes = [
        ("Notes (# text)", f"saved in {find_notes_file(session.rules)}"),
        ("Memories", f"{len(notebook.memos())} in {notebook.folder}"),
        (INDEX, f"{loaded} loaded{' (the rest is cut off)' if is_cut else ''}"),
    ]
    if waiting := len(notebook.proposals()):
        notes.append(("Proposals", f"{waiting} proposed, not in use yet: /memory review"))
    page = ReportPage(
        title="Memory",
        summary=f"{total:,} tokens",
        groups=(*groups, pairs(notes, "Notes and memories")),
        hints=("/memory to WHERE changes where notes are saved", "/memory list lists memories"),
    )
    return show_page(page)


def _review(proposals: Sequence[Memo]) -> Outcome:
    if not proposals:
        return Show(text="No proposed memories")
    text = "\n\n".join(f"{p.name} ({p.source})\n  {p.title}\n  {p.text}" for p in proposals)
    rows = [PickRow(line=f"/memory accept {ALL}", label=f"Accept all {len(proposals)}")]
    rows += [
        PickRow(line=f"/memory accept {p.name}", label=f"Accept: {p.title}") for p in proposals
    ]
    rows += [PickRow(line=f"/memory drop {p.name}", label=f"Drop: {p.title}") for p in proposals]
    rows.append(PickRow(line=f"/memory drop {ALL}", label="Drop all"))
    return Pick(title="Review proposed memories", rows=tuple(rows), text=text)


async def _reviewed(session: Session, _: Sequence[str]) -> Outcome:
    return _review(_notebook(session).proposals())


async def _accept(session: Session, names: Sequence[str]) -> Outcome:
    notebook = _notebook(session)
    for memo in _meant(notebook, names):
        path = notebook.accept(memo.name)
        session.intake.remembered(path, memo.text)
    return _next(notebook, "accepted")


async def _drop(session: Session, names: Sequence[str]) -> Outcome:
    notebook = _notebook(session)
    for memo in _meant(notebook, names):
        notebook.drop(memo.name)
    return _next(notebook, "dropped")


def _next(notebook: MemoryNotebook, done: str) -> Outcome:
    left = notebook.proposals()
    return _review(left) if left else Show(text=f"{done}; no proposals left")


def _meant(notebook: MemoryNotebook, names: Sequence[str]) -> list[Memo]:
    if not names:
        raise UserError(USAGE)
    if names[0] == ALL:
        return notebook.proposals()
    return [notebook.find(names[0], proposed=True)]


async def _list(session: Session, _: Sequence[str]) -> Outcome:
    lines = [f"{memo.name}  {memo.title}  ({memo.source})" for memo in _notebook(session).memos()]
    return Show(text="\n".join(lines) or "No memories in this project")


async def _show(session: Session, names: Sequence[str]) -> Outcome:
    memo = _notebook(session).find(names[0] if names else "")
    return Show(text=f"{memo.title}\n({memo.source}, {memo.at})\n\n{memo.text}")


async def _forget(session: Session, names: Sequence[str]) -> Outcome:
    _notebook(session).forget(names[0] if names else "")
    return Show(text=f"Deleted {names[0]}. This conversation may still contain it.")


async def _to(session: Session, names: Sequence[str]) -> Outcome:
    if not names or names[0] not in NOTES:
        raise UserError(f"Usage: /memory to {' | '.join(NOTES)}")
    assign(session.rules.standing.places, "user", "notesFile", names[0])
    noticed = of_own(await session.parts.refresh())
    return Show(text="\n".join([f"Notes are saved in {find_notes_file(session.rules)}", *noticed]))


def _notebook(session: Session) -> MemoryNotebook:
    return notebook_of(session.rules.standing.places)


Word: TypeAlias = Callable[[Session, Sequence[str]], Awaitable[Outcome]]
WORDS: dict[str, Word] = {
    "to": _to,
    "list": _list,
    "show": _show,
    "forget": _forget,
    "review": _reviewed,
    "accept": _accept,
    "drop": _drop,
}


HANDLERS: SlashHandlers = {
    "memory": memory,
    "remember": remember,
}
