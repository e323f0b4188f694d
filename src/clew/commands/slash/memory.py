"""`/memory` and `/remember`: which memory speaks here, where notes go, what is proposed. Loaded when typed."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from clew.agent.context.memory import FileCache, MemoryGate, find_sources, load_memory
from clew.agent.context.nearby import make_note_fact
from clew.agent.context.notebook import INDEX, Memo, MemoryNotebook
from clew.agent.intake import NOTES, find_notes_file
from clew.commands.memory import shown
from clew.commands.slash import SlashHandlers
from clew.core.input import Outcome, Pick, PickRow, Show
from clew.core.messages.errors import UserError
from clew.core.messages.text import format_count
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
        session.intake.tell(make_note_fact(path, words.strip()))
        return Show(text=f"remembered in {path}")
    memos = await propose_memos(
        session.story,
        session.model_access.ask,
        session.rules.standing.places,
        session.session_id,
    )
    if not memos:
        return Show(text="nothing new to remember was found")
    return _review(memos)


def _overview(session: Session) -> Show:
    standing = session.rules.standing
    gate = MemoryGate(lambda: standing)
    memory = load_memory(find_sources(standing.environ, standing.places.cwd, gate), FileCache())
    notebook = notebook_of(standing.places)
    index, is_cut = notebook.index()
    lines = [
        *shown(memory, None, None),
        f"notes (`# words`) go to {find_notes_file(session.rules)}; /memory to WHERE changes that",
        f"memories: {len(notebook.memos())} in {notebook.folder}, of {INDEX} "
        f"{format_count(len(index.splitlines()), 'line is', 'lines are')} told{' (it has more)' if is_cut else ''}",
    ]
    waiting = len(notebook.proposals())
    if waiting:
        lines.append(f"{waiting} proposed and not told yet: /memory review")
    return Show(text="\n".join(lines))


def _review(proposals: Sequence[Memo]) -> Outcome:
    if not proposals:
        return Show(text="nothing is proposed")
    text = "\n\n".join(f"{p.name} ({p.source})\n  {p.title}\n  {p.text}" for p in proposals)
    rows = [PickRow(line=f"/memory accept {ALL}", label=f"accept all {len(proposals)}")]
    rows += [
        PickRow(line=f"/memory accept {p.name}", label=f"accept: {p.title}") for p in proposals
    ]
    rows += [PickRow(line=f"/memory drop {p.name}", label=f"drop: {p.title}") for p in proposals]
    rows.append(PickRow(line=f"/memory drop {ALL}", label="drop all"))
    return Pick(title="which count from now on", rows=tuple(rows), text=text)


async def _reviewed(session: Session, _: Sequence[str]) -> Outcome:
    return _review(_notebook(session).proposals())


async def _accept(session: Session, names: Sequence[str]) -> Outcome:
    notebook = _notebook(session)
    for memo in _meant(notebook, names):
        path = notebook.accept(memo.name)
        session.intake.tell(make_note_fact(path, memo.text))
    return _next(notebook, "accepted")


async def _drop(session: Session, names: Sequence[str]) -> Outcome:
    notebook = _notebook(session)
    for memo in _meant(notebook, names):
        notebook.drop(memo.name)
    return _next(notebook, "dropped")


def _next(notebook: MemoryNotebook, done: str) -> Outcome:
    left = notebook.proposals()
    return _review(left) if left else Show(text=f"{done}; nothing waits any more")


def _meant(notebook: MemoryNotebook, names: Sequence[str]) -> list[Memo]:
    if not names:
        raise UserError(USAGE)
    if names[0] == ALL:
        return notebook.proposals()
    return [notebook.find(names[0], proposed=True)]


async def _list(session: Session, _: Sequence[str]) -> Outcome:
    lines = [f"{memo.name}  {memo.title}  ({memo.source})" for memo in _notebook(session).memos()]
    return Show(text="\n".join(lines) or "nothing is remembered in this project")


async def _show(session: Session, names: Sequence[str]) -> Outcome:
    memo = _notebook(session).find(names[0] if names else "")
    return Show(text=f"{memo.title}\n({memo.source}, {memo.at})\n\n{memo.text}")


async def _forget(session: Session, names: Sequence[str]) -> Outcome:
    _notebook(session).forget(names[0] if names else "")
    return Show(text=f"{names[0]} is forgotten; what was told of it stays in this conversation")


async def _to(session: Session, names: Sequence[str]) -> Outcome:
    if not names or names[0] not in NOTES:
        raise UserError(f"/memory to {' | '.join(NOTES)}")
    assign(session.rules.standing.places, "user", "notesFile", names[0])
    noticed = of_own(await session.parts.refresh())
    return Show(text="\n".join([f"notes go to {find_notes_file(session.rules)}", *noticed]))


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
