"""Slash commands about this session's record: its tree, a copy of it, its title, it as a file, words in it."""

import time
from pathlib import Path

from clew.app.session import Session
from clew.commands.outcome import Outcome, Resume, Show
from clew.messages.errors import SessionError, UserError
from clew.messages.moments import written

SEARCHED = 20


async def kept(session: Session) -> Path:
    """The transcript, with everything said so far in it."""
    await session.story.durable()
    path = session.story.recorder.transcript
    if not path.exists():
        raise SessionError("nothing was said yet, or nothing is kept (--no-session-persistence)")
    return path


async def fork(session: Session, message: str) -> Outcome:
    """A copy to go on in; the session stays as it is."""
    from clew.library.copies import fork as copied

    path = await kept(session)
    uuid = whole_uuid(path, message) if message else None
    made = copied(path, uuid, title="", at=written(time.time_ns() // 1_000_000))
    return Resume(session=made.path.stem)


def whole_uuid(path: Path, beginning: str) -> str:
    """The prompt that a uuid, or the beginning of one, means."""
    from clew.library.branches import prompts

    found = [one.uuid for one in prompts(path) if one.uuid.startswith(beginning)]
    if len(found) != 1:
        many = "several messages begin" if found else "no message begins"
        raise SessionError(f"{many} with {beginning}; /tree shows them")
    return found[0]


async def tree(session: Session, _: str) -> Outcome:
    from clew.library.tree import told
    from clew.library.tree import tree as tree_of

    return Show(text="\n".join(told(tree_of(await kept(session)))))


async def rename(session: Session, title: str) -> Outcome:
    if not title:
        return Show(text="name the title: /rename TITLE", is_error=True)
    session.story.recorder.title(title)
    return Show(text=f"this session is called {title!r}")


async def export(session: Session, arguments: str) -> Outcome:
    """Into a file of the working folder, in the form that its name says."""
    from clew.exchange.export import exported, form_of, redaction_of, write

    given = arguments.split()
    redaction = redaction_of(redacts="--redact" in given, is_raw="--raw" in given)
    words = [word for word in given if word not in ("--redact", "--raw")]
    name = " ".join(words) or f"clew-{session.session_id[:8]}.md"
    target = new_file(session, name)
    path = await kept(session)
    data = exported(path, form_of(target), redaction, subagents=True)
    write(target, data)
    return Show(text=f"{target}: {len(data):,} bytes")


def new_file(session: Session, name: str) -> Path:
    """A file that a command may write: one that is not there yet."""
    target = Path(session.rules.standing.places.cwd, Path(name).expanduser())
    if target.exists():
        raise UserError(f"{target} is there already; name another file")
    return target


async def search(session: Session, words: str) -> Outcome:
    """In all sessions; this one among them."""
    from clew.library.search import Scope, told
    from clew.library.search import search as searched
    from clew.library.words import query_of

    query = query_of(words)
    if query.is_empty:
        return Show(text="name what to look for: /search WORDS", is_error=True)
    await session.story.durable()
    home = session.rules.standing.places.config_home
    return Show(text="\n".join(told(searched(home, query, Scope(), limit=SEARCHED))))


async def diff(session: Session, _: str) -> Outcome:
    """What is changed in the working folder and not committed."""
    from clew.context.git import difference, report
    from clew.process.spawn import Launcher

    standing = session.rules.standing
    cwd, launcher = standing.places.cwd, Launcher()
    try:
        found = await report(launcher, cwd, standing.environ)
        if found is None:
            return Show(text=f"{cwd} is in no git repository", is_error=True)
        text = await difference(launcher, cwd, standing.environ)
    finally:
        await launcher.aclose()
    new = "\n".join(f"new: {path}" for path in found.untracked)
    return Show(text="\n".join(filter(None, [text.rstrip(), new])) or "nothing is changed")


async def todos(session: Session, _: str) -> Outcome:
    """What the model means to do, by its own lists."""
    from clew.tools.task_list import TaskList

    marks = {"completed": "[x]", "in_progress": "[>]"}
    tasks = TaskList(session.own.task_folder).tasks()
    lines = [
        *(f"{marks.get(t.status, '[ ]')} {t.content}" for t in session.spending.state.todos),
        *(f"{marks.get(t.status, '[ ]')} #{t.id} {t.subject}" for t in tasks),
    ]
    return Show(text="\n".join(lines) or "the list is empty")
