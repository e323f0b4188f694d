"""Slash commands about what works beside the conversation: its tasks, and its kinds of agents."""

from typing import Any, TypeAlias

from clew.app.session import Session
from clew.commands.outcome import Outcome, Show
from clew.commands.rows import table
from clew.messages.counts import count_of
from clew.messages.errors import UserError
from clew.skills.listing import LONG, cut
from clew.subagents.specs import Spec
from clew.tasks.registry import Task
from clew.transcript.agents import remote_agents

Json: TypeAlias = dict[str, Any]
SHOWN_CHARACTERS = 20_000


async def tasks(session: Session, arguments: str) -> Outcome:
    word, _, rest = arguments.partition(" ")
    if word == "stop":
        return await stop(session, rest.strip())
    if word == "keep":
        return await keep(session, rest.strip())
    elsewhere = remote(session)
    if word in elsewhere and session.tasks.get(word) is None:
        return Show(text=remote_whole(elsewhere[word]))
    if word:
        return Show(text=whole(known(session, word)))
    rows = [(task.id, row(task)) for task in session.tasks.newest_first()]
    rows += [(name, remote_row(said)) for name, said in elsewhere.items()]
    if not rows:
        return Show(text="nothing works, or has worked, beside the conversation")
    return Show(text=table(rows))


def remote(session: Session) -> dict[str, Json]:
    """What another program had begun elsewhere for this session: clew sees what is written of it, no more."""
    return dict(remote_agents(session.agents.place))


def remote_row(said: Json) -> str:
    title = next((t for key in ("title", "command") if isinstance(t := said.get(key), str)), "")
    return f"remote agent of another program, not seen from here: {title or 'no title'}"


def remote_whole(said: Json) -> str:
    known = table((key, str(value)) for key, value in said.items() if isinstance(value, (str, int)))
    return f"{remote_row(said)}\n{known}"


async def stop(session: Session, name: str) -> Outcome:
    """Ends one task, or all of them."""
    running = session.tasks.running
    chosen = running if name in ("", "all") else [known(session, name)]
    for task in chosen:
        await session.tasks.stop(task)
    stopped = ", ".join(task.id for task in chosen) or "nothing: no task runs"
    return Show(text=f"stopped {stopped}")


async def keep(session: Session, name: str) -> Outcome:
    """Has a command go on when clew ends."""
    if not name:
        raise UserError("which task? /tasks lists them; /tasks keep ID")
    task = known(session, name)
    await session.tasks.keep(task)
    return Show(text=kept_words(task))


def kept_words(task: Task) -> str:
    return f"{task.id} goes on when clew ends: clew tasks lists it then, and stops it"


def known(session: Session, name: str) -> Task:
    task = session.tasks.get(name)
    if task is None and name in remote(session):
        raise UserError(f"{name} works elsewhere: what began it can end it, and clew cannot")
    if task is None:
        there = ", ".join(one.id for one in session.tasks.all()) or "none"
        raise UserError(f"no task {name}; there are: {there}")
    return task


def row(task: Task) -> str:
    """A task in one line: what it is, how it stands, and for agents what they did."""
    about = f"{task.kind} {task.status}{', kept' if task.is_kept else ''}: {task.title}"
    used = task.usage
    if used is None:
        return about
    last = f", now {used.last_tool}" if used.last_tool and task.ending is None else ""
    return f"{about} ({count_of(used.tool_uses, 'tool use')}, {used.tokens:,} tokens{last})"


def whole(task: Task) -> str:
    task.output.look()
    first, last = task.output.since(0, SHOWN_CHARACTERS)
    said = (first + last).decode("utf-8", "replace").rstrip()
    ending = task.ending
    parts = [row(task), said]
    if ending is not None:
        parts += [ending.words, "" if ending.result in said else ending.result]
    if task.file is not None:
        parts.append(f"in {task.file}")
    return "\n".join(part for part in parts if part)


async def background(session: Session, prompt: str) -> Outcome:
    """The turn that runs, or a prompt with all that was said so far, beside the conversation."""
    if prompt:
        task = await session.leaving.beside(prompt)
        return Show(text=f"agent {task.id} works on it; /tasks {task.id} shows how far it is")
    if session.leaving.ask():
        return Show(text="this turn goes on in the background from its next step on")
    return Show(text="no turn runs; /background PROMPT has one worked on beside the conversation")


async def agents(session: Session, arguments: str) -> Outcome:
    word, _, rest = arguments.partition(" ")
    if word == "merge":
        return Show(text=await session.agents.checkouts.merged(rest.strip()))
    if word == "discard":
        await session.agents.checkouts.discarded(rest.strip())
        return Show(text=f"the checkout of agent {rest.strip()} is gone")
    if word:
        return Show(text=described(session.agents.spec(word)))
    catalog = session.agents.catalog
    rows = [
        (spec.name, f"{cut(first_line(spec.description), LONG // 4)} ({origin(spec)})")
        for spec in catalog
    ]
    hidden = [(spec.name, f"stands behind another ({origin(spec)})") for spec in catalog.shadowed]
    faults = [f"! {fault}" for fault in session.agents.faults]
    return Show(text="\n".join([table([*rows, *hidden]), *faults]))


def origin(spec: Spec) -> str:
    return f"{spec.origin} {spec.where}".rstrip()


def first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]


def described(spec: Spec) -> str:
    rows = [
        ("from", origin(spec)),
        ("use", " ".join(spec.description.split())),
        ("tools", "all" if spec.tools is None else ", ".join(spec.tools) or "none"),
        ("not", ", ".join(spec.disallowed)),
        ("model", spec.model or "the session's"),
        ("mode", spec.mode or "the session's"),
        ("answers", "" if spec.max_turns is None else f"at most {spec.max_turns}"),
        ("memory", spec.memory or ""),
        ("skills", ", ".join(spec.skills)),
        ("MCP", ", ".join([*spec.named_servers, *(f"{name} (its own)" for name in spec.servers)])),
        ("hooks", ", ".join(spec.hooks)),
        ("works", "in a checkout of its own" if spec.in_worktree else ""),
        ("", "in the background" if spec.background else ""),
    ]
    return f"{spec.name}\n{table((k, v) for k, v in rows if v)}\n\n{spec.prompt}"
