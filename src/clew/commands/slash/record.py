"""Slash commands about this session's transcript and work, such as /rewind, /tree and /export."""

import asyncio
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from clew.agent.intake import title_of
from clew.commands.slash import SlashHandlers, show_page
from clew.core.input import Outcome, Pick, PickRow, Resume, Rewound, Show
from clew.core.messages.errors import SessionError, UserError
from clew.core.messages.text import format_count
from clew.core.page import ReportPage, pairs
from clew.record.library.branches import BranchPrompt
from clew.record.rewind.restore import RestorePlan, resolve_message
from clew.session.rewinding import WHATS, Rewinding, What, format_preview
from clew.session.session import Session
from clew.system.clock import format_local_timestamp, get_timestamp
from clew.system.files import is_there

TYPE_CHECKING = False
if TYPE_CHECKING:
    from clew.record.library.search import SearchHit

NOW_ENDS = "The conversation now ends"

# `/rewind`: rewind this session to any message, and redo.


SHOWN_CHARACTERS = 70
# Number of characters that identify a UUID within a session.
SHORT = 8
FORCE, REDO = "force", "redo"
LABELS: dict[What, str] = {
    "both": "Conversation and files",
    "conversation": "Conversation only",
    "files": "Files only",
}


async def rewind(session: Session, arguments: str) -> Outcome:
    words = arguments.split()
    is_forced = FORCE in words[1:]
    message, *further_words = [w for n, w in enumerate(words) if not (n and w == FORCE)] or [""]
    rewinding = Rewinding(session)
    if not message:
        return await _prompts(rewinding)
    if message == REDO and not further_words:
        return await _done(rewinding, await rewinding.planned_redo(), REDO, is_forced=is_forced)
    if len(further_words) > 1 or any(word not in WHATS for word in further_words):
        raise UserError(
            f"Usage: /rewind MESSAGE [{' | '.join(WHATS)}] [{FORCE}], or /rewind {REDO} [{FORCE}]"
        )
    if not further_words:
        return await _preview(rewinding, message)
    what = next(what for what in WHATS if what == further_words[0])
    planned = await rewinding.planned(message, what)
    return await _done(rewinding, planned, f"{message} {what}", is_forced=is_forced)


async def _prompts(rewinding: Rewinding) -> Outcome:
    targets = await rewinding.prompts()
    if not targets:
        return Show(text="No messages yet")
    rows = []
    for prompt in targets:
        words = " ".join(title_of(prompt.text).split())[:SHOWN_CHARACTERS]
        files = (
            f"  ({format_count(prompt.files_since, 'file')} changed since)"
            if prompt.files_since
            else ""
        )
        rows.append(PickRow(line=f"/rewind {prompt.uuid[:SHORT]}", label=f"{words}{files}"))
    return Pick(title="Rewind to before", rows=tuple(rows))


async def _preview(rewinding: Rewinding, message: str) -> Outcome:
    planned = await rewinding.planned(message, "both")
    force = "" if planned.is_clear else f" {FORCE}"
    touches_files = bool(planned.changes or planned.foreign or planned.lost)
    rows = [
        PickRow(
            line=f"/rewind {message} {what}{'' if what == 'conversation' else force}",
            label=LABELS[what] + ("" if what == "conversation" or not force else _forced(planned)),
        )
        for what in WHATS
        if touches_files or what == "conversation"
    ]
    return Pick(
        title="Restore",
        rows=tuple(rows),
        text=format_preview(planned, rewinding.blobs, await rewinding.where(planned)),
    )


def _forced(planned: RestorePlan) -> str:
    over = (
        f"overwrites {format_count(len(planned.foreign), 'file')} changed outside clew"
        if planned.foreign
        else ""
    )
    without = (
        f"skips {format_count(len(planned.lost), 'file')} that can't be restored"
        if planned.lost
        else ""
    )
    return f" ({', '.join(filter(None, [over, without]))})"


async def _done(
    rewinding: Rewinding, planned: RestorePlan, words: str, *, is_forced: bool
) -> Outcome:
    where = await rewinding.where(planned)
    if not planned.is_clear and not is_forced:
        return Show(
            text=f"{format_preview(planned, rewinding.blobs, where)}\nNothing was changed. "
            f"/rewind {words} {FORCE} overwrites files changed outside clew and skips those that can't be restored.",
            is_error=True,
        )
    prompt = rewinding.said_at(planned.to) if planned.conversation else ""
    await rewinding.carry_out(planned, force=is_forced)
    lines = [f"{change.verb}: {change.path}" for change in planned.changes]
    if planned.conversation:
        lines.append(f"{NOW_ENDS} {where}")
    if planned.redo_of is None:
        lines.append(f"Undo with /rewind {REDO}")
    return Rewound(text="\n".join(lines), prompt=prompt)


SEARCHED = 20


async def kept(session: Session) -> Path:
    """Write all entries so far to the transcript, and return its path.

    Raise `SessionError` if there is no transcript.
    """
    await session.story.durable()
    path = session.story.recorder.transcript
    if not is_there(path):
        raise SessionError(
            "no transcript: the session has no messages yet, or is not saved (--no-session-persistence)"
        )
    return path


async def fork(session: Session, message: str) -> Outcome:
    """Continue in a copy of the session. The original is not changed."""
    from clew.record.library.copies import fork as copied

    path = await kept(session)
    uuid = resolve_message(path, message) if message else None
    copy = copied(path, uuid, title="", at=get_timestamp())
    return Resume(session=copy.path.stem)


async def tree(session: Session, message: str) -> Outcome:
    """Show the prompts of all branches, or the ways to continue from one of them."""
    from clew.record.library.branches import find_live_leaf, format_prompt
    from clew.record.library.branches import read_tree as tree_of

    path = await kept(session)
    session_tree = await asyncio.to_thread(tree_of, path)
    if message:
        uuid = resolve_message(path, message)
        prompt = next(
            (prompt for prompt in session_tree.prompts if uuid in (prompt.uuid, prompt.end)), None
        )
        if prompt is None:
            raise SessionError(f"{message} is not a prompt; /tree lists the prompts")
        return ways_from(prompt)
    rows = [
        *(
            PickRow(line=f"/tree {prompt.uuid[:SHORT]}", label=format_prompt(prompt))
            for prompt in session_tree.prompts
        ),
        *(
            PickRow(
                line=f"/resume {fork['sessionId']}",
                label=f"Fork: {fork['title']}",
            )
            for fork in session_tree.forks
        ),
    ]
    origin = session_tree.forked_from
    text = f"A fork of “{origin['title']}”" if origin else ""
    return Pick(title="Go to", rows=tuple(rows), text=text, at=find_live_leaf(session_tree))


def ways_from(prompt: BranchPrompt) -> Pick:
    """Return the ways to continue from a prompt on any branch."""
    rows = []
    if prompt.live:
        line = f"/rewind {prompt.uuid[:SHORT]} conversation"
        rows.append(
            PickRow(line=line, label="Before this prompt, to change it; files are not changed")
        )
    if not (prompt.live and prompt.is_leaf):
        line = f"/rewind {prompt.end} conversation"
        rows.append(PickRow(line=line, label="After its response; files are not changed"))
    label = "After its response, in a fork; this session is not changed"
    rows.append(PickRow(line=f"/fork {prompt.end}", label=label))
    return Pick(title="Continue", rows=tuple(rows), text=prompt.text)


async def rename(session: Session, title: str) -> Outcome:
    if not title:
        return Show(text="Usage: /rename TITLE", is_error=True)
    session.story.recorder.title(title)
    return Show(text=f'Renamed this session to "{title}"')


async def export(session: Session, arguments: str) -> Outcome:
    """Export the session to a file in the working folder.

    The file's extension determines the format.
    """
    from clew.record.exchange.export import (
        LEFT_OUT,
        begins_late,
        export_session,
        form_of,
        redaction_of,
        write,
    )

    options = arguments.split()
    is_all = "--all" in options
    redaction = redaction_of(redacts="--redact" in options, is_raw="--raw" in options)
    words = [word for word in options if word not in ("--redact", "--raw", "--all")]
    name = " ".join(words) or f"clew-{session.session_id[:8]}.md"
    target = choose_new_file(session, name)
    path = await kept(session)
    form = form_of(target)
    data = export_session(path, form, redaction, subagents=True, is_all=is_all)
    write(target, data)
    left_out = not is_all and begins_late(path, form, subagents=True)
    return Show(text=f"{target}: {len(data):,} bytes" + (f"; {LEFT_OUT}" if left_out else ""))


def choose_new_file(session: Session, name: str) -> Path:
    """Return the path that a command writes to. No file may exist there yet."""
    target = Path(session.rules.standing.places.cwd, Path(name).expanduser())
    if is_there(target):
        raise UserError(f"{target} already exists; choose another name")
    return target


async def search(session: Session, words: str) -> Outcome:
    """Search all sessions, including this one."""
    from clew.record.library.search import Scope
    from clew.record.library.search import search as searched
    from clew.record.library.words import query_of

    query = query_of(words)
    if query.is_empty:
        return Show(text="Usage: /search WORDS", is_error=True)
    await session.story.durable()
    home = session.rules.standing.places.config_home
    hits = searched(home, query, Scope(), limit=SEARCHED).hits
    if not hits:
        return Show(text=f"no matches for: {words}")
    groups = [
        pairs(
            [
                (format_local_timestamp(hit.timestamp or ""), f"{hit.speaker}: {hit.snippet}")
                for hit in of_session
            ],
            _name_session(session, of_session[0]),
        )
        for of_session in (list(found) for _, found in groupby(hits, key=attrgetter("path")))
    ]
    count = format_count(len(hits), "match", "matches")
    hints = ("clew sessions search has filters",)
    more = ", and possibly more" if len(hits) == SEARCHED else ""
    page = ReportPage(title="Search", summary=count + more, groups=tuple(groups), hints=hints)
    return show_page(page)


def _name_session(session: Session, hit: "SearchHit") -> str:
    """Return the heading of a session's matches: its title, and the command that resumes it."""
    agent = f" · subagent {hit.agent}" if hit.agent else ""
    if hit.session_id == session.session_id:
        return f"{hit.title}{agent} · this session"
    is_here = hit.cwd == str(session.rules.standing.places.cwd)
    folder = "" if is_here else f" · {hit.cwd}"
    return f"{hit.title}{agent}{folder} · /resume {hit.session_id}"


async def diff(session: Session, _: str) -> Outcome:
    """Show the uncommitted changes in the working folder."""
    from clew.agent.context.git import read_difference, report

    cwd, environ = session.rules.standing.places.cwd, session.rules.standing.environ
    async with asyncio.TaskGroup() as group:
        task = group.create_task(report(session.workspace.launcher, cwd, environ))
        text = group.create_task(read_difference(session.workspace.launcher, cwd, environ))
    changes = task.result()
    if changes is None:
        return Show(text=f"{cwd} is not in a git repository", is_error=True)
    new = "\n".join(f"new: {path}" for path in changes.untracked)
    words = "\n".join(filter(None, [text.result().rstrip(), new])) or "No changes"
    return Show(text=words, has_diffs=True)


async def todos(session: Session, _: str) -> Outcome:
    """Show the model's to-do list and its tasks."""
    from clew.agent.tools.tasks import TaskList

    marks = {"completed": "[x]", "in_progress": "[>]"}
    tasks = TaskList(session.parts.planning.task_folder).tasks()
    lines = [
        *(f"{marks.get(t.status, '[ ]')} {t.content}" for t in session.costs.spending.state.todos),
        *(f"{marks.get(t.status, '[ ]')} #{t.id} {t.subject}" for t in tasks),
    ]
    return Show(text="\n".join(lines) or "The todo list is empty")


# `/btw`: a side question.


async def ask_aside(session: Session, question: str) -> Outcome:
    if not question:
        return Show(text="Usage: /btw QUESTION", is_error=True)
    if not len(session.story.history):
        return Show(text="The conversation has no messages yet", is_error=True)
    answer = await session.conversation.ask_aside(question, session.model_access.put)
    if isinstance(answer, str):
        return Show(text=answer, is_recorded=True)
    return Show(text=f"The question was not answered: {answer.message}", is_error=True)


# `/relocate`: sessions of a project that was moved to this folder.


async def relocate(session: Session, arguments: str) -> Outcome:
    from clew.parts.moved_projects import leave_sessions
    from clew.record.library.keeping import move_sessions, plan_moves

    places = session.rules.standing.places
    home, cwd = places.config_home, str(places.cwd)
    word, _, rest = arguments.partition(" ")
    if word == "--leave" and rest.strip():
        leave_sessions(home, rest.strip(), cwd)
        return Show(
            text="The sessions stay in their folder. To move them later, run clew sessions"
            " relocate."
        )
    moves = plan_moves(home, arguments, cwd) if arguments else []
    if not moves:
        return Show(text="Usage: /relocate FOLDER (the project's former folder)", is_error=True)
    done = move_sessions(home, moves)
    lines = [f"{format_count(len(done.moved), 'session')} moved to this folder; /resume lists them"]
    lines += [f"{move.session_id} was not moved: {why}" for move, why in done.kept]
    return Show(text="\n".join(lines), is_error=not done.moved)


HANDLERS: SlashHandlers = {
    "relocate": relocate,
    "btw": ask_aside,
    "diff": diff,
    "export": export,
    "fork": fork,
    "rename": rename,
    "search": search,
    "todos": todos,
    "tree": tree,
}
