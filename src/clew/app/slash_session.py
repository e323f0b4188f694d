"""Slash commands about this session's record: its tree, a copy of it, its title, it as a file, words in it."""

import asyncio
import time
from pathlib import Path

from clew.app.session import Session
from clew.commands.outcome import Outcome, Pick, Resume, Row, Show
from clew.config.there import is_there
from clew.library.branches import Prompt
from clew.messages.errors import SessionError, UserError
from clew.messages.moments import written
from clew.rewind.story import named

SEARCHED = 20
# Enough of a uuid to be told from the others of a session.
SHORT = 8


async def kept(session: Session) -> Path:
    """The transcript, with everything said so far in it."""
    await session.story.durable()
    path = session.story.recorder.transcript
    if not is_there(path):
        raise SessionError("nothing was said yet, or nothing is kept (--no-session-persistence)")
    return path


async def fork(session: Session, message: str) -> Outcome:
    """A copy to go on in; the session stays as it is."""
    from clew.library.copies import fork as copied

    path = await kept(session)
    uuid = named(path, message) if message else None
    made = copied(path, uuid, title="", at=written(time.time_ns() // 1_000_000))
    return Resume(session=made.path.stem)


async def tree(session: Session, message: str) -> Outcome:
    """Every prompt on every branch; of one of them, the ways to go on from there."""
    from clew.library.tree import live_leaf, prompt_line
    from clew.library.tree import tree as tree_of

    path = await kept(session)
    found = await asyncio.to_thread(tree_of, path)
    if message:
        uuid = named(path, message)
        prompt = next((one for one in found.prompts if uuid in (one.uuid, one.end)), None)
        if prompt is None:
            raise SessionError(f"{message} is no prompt; /tree shows them")
        return ways_from(prompt)
    rows = [
        *(Row(line=f"/tree {one.uuid[:SHORT]}", label=prompt_line(one)) for one in found.prompts),
        *(
            Row(
                line=f"/resume {fork['sessionId']}",
                label=f"a fork at {fork['messageUuid'][:SHORT]}",
            )
            for fork in found.forks
        ),
    ]
    said = found.forked_from
    text = f"a fork of {said['sessionId']} at {said['messageUuid']}" if said else ""
    return Pick(title="go to", rows=tuple(rows), text=text, at=live_leaf(found))


def ways_from(prompt: Prompt) -> Pick:
    """On from a prompt, on whatever branch it stands."""
    rows = []
    if prompt.live:
        line = f"/rewind {prompt.uuid[:SHORT]} conversation"
        rows.append(Row(line=line, label="before it, to say it otherwise; files stay as they are"))
    if not (prompt.live and prompt.is_leaf):
        line = f"/rewind {prompt.end} conversation"
        rows.append(Row(line=line, label="behind its answer; files stay as they are"))
    label = "behind its answer, in a copy; this session stays as it is"
    rows.append(Row(line=f"/fork {prompt.end}", label=label))
    return Pick(title="go on", rows=tuple(rows), text=prompt.text)


async def rename(session: Session, title: str) -> Outcome:
    if not title:
        return Show(text="name the title: /rename TITLE", is_error=True)
    session.story.recorder.title(title)
    return Show(text=f"this session is called {title!r}")


async def export(session: Session, arguments: str) -> Outcome:
    """Into a file of the working folder, in the form that its name says."""
    from clew.exchange.export import LEFT_OUT, begins_late, exported, form_of, redaction_of, write

    given = arguments.split()
    is_all = "--all" in given
    redaction = redaction_of(redacts="--redact" in given, is_raw="--raw" in given)
    words = [word for word in given if word not in ("--redact", "--raw", "--all")]
    name = " ".join(words) or f"clew-{session.session_id[:8]}.md"
    target = new_file(session, name)
    path = await kept(session)
    form = form_of(target)
    data = exported(path, form, redaction, subagents=True, is_all=is_all)
    write(target, data)
    left_out = not is_all and begins_late(path, form, subagents=True)
    return Show(text=f"{target}: {len(data):,} bytes" + (f"; {LEFT_OUT}" if left_out else ""))


def new_file(session: Session, name: str) -> Path:
    """A file that a command may write: one that is not there yet."""
    target = Path(session.rules.standing.places.cwd, Path(name).expanduser())
    if is_there(target):
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

    cwd, environ = session.rules.standing.places.cwd, session.rules.standing.environ
    async with asyncio.TaskGroup() as group:
        told = group.create_task(report(session.launcher, cwd, environ))
        text = group.create_task(difference(session.launcher, cwd, environ))
    found = told.result()
    if found is None:
        return Show(text=f"{cwd} is in no git repository", is_error=True)
    new = "\n".join(f"new: {path}" for path in found.untracked)
    return Show(text="\n".join(filter(None, [text.result().rstrip(), new])) or "nothing is changed")


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
