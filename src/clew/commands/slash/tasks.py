"""Slash commands about background work: tasks, schedules, goals and subagents."""

import re
from datetime import timedelta

from clew.agent.subagents.specs import AgentSpec
from clew.agent.tasks.registry import BackgroundTask
from clew.commands.slash import SlashHandlers, show_page
from clew.core.input import Outcome, Show, SubmitPrompt, format_table
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.core.messages.text import format_count, format_duration, format_tokens
from clew.core.page import ReportPage, pairs
from clew.parts.goals import MOST_CHECKS
from clew.parts.schedules import cron
from clew.parts.schedules.board import ScheduleRequest, format_schedule
from clew.parts.schedules.cron import parse_span
from clew.parts.skills.expand import split
from clew.parts.skills.listing import LONG, cut
from clew.record.transcript.agents import read_remote_agents
from clew.session.session import Session
from clew.system.clock import local_time

# `/loop` and `/goal`: work that continues automatically, with a visible end and cost.


USUAL_EVERY_S = 600
NONE = "No schedules"
# A number followed by letters is probably a malformed duration, not the start of a prompt.
LIKE_A_SPAN = re.compile(r"[0-9][0-9.,]*[A-Za-z]+[0-9A-Za-z]*")
LOOP = '/loop [5m | "CRON"] [--times N] [--for 2h] [--budget USD] PROMPT, /loop stop [ID]'


async def loop(session: Session, arguments: str) -> Outcome:
    board = session.parts.schedules.board
    running = board.running()
    if not arguments:
        lines = [format_schedule(item, board.spent_since(item)) for item in running]
        return Show(text="\n".join(lines) or f"{NONE}; {LOOP}")
    words = split(arguments)
    if words[0] == "stop":
        meant = [item for item in running if not words[1:] or item.id in words[1:]]
        for add in meant:
            await board.stop(add)
        ids = ", ".join(item.id for item in running)
        none = f'Unknown schedule "{" ".join(words[1:])}" (expected one of: {ids})' if ids else NONE
        return Show(text=f"Stopped: {', '.join(add.id for add in meant)}" if meant else none)
    try:
        add = board.add(wish(arguments))
    except (UserError, ValueError) as error:
        return Show(text=f"/loop: {error}", is_error=True)
    return Show(
        text=f"{format_schedule(add, 0.0)}\nEach run costs a turn. The schedule ends with this session. /loop shows its cost; "
        f"/loop stop {add.id} ends it."
    )


def wish(arguments: str) -> ScheduleRequest:
    """Parse the arguments of `/loop`. Raise ValueError if they are invalid."""
    rest, every, expression = arguments, USUAL_EVERY_S, ""
    if rest.startswith('"') and '"' in rest[1:]:
        expression, _, rest = rest[1:].partition('"')
    else:
        first, _, behind = rest.partition(" ")
        interval = parse_span(first)
        if interval is not None:
            every, rest = interval, behind
        elif LIKE_A_SPAN.fullmatch(first):
            raise ValueError(
                f"invalid duration {first}: use forms such as 90s, 5m, 2h, 1d or 1h30m; if the prompt starts with "
                "this word, put a duration before it"
            )
    options: dict[str, str] = {}
    rest = rest.lstrip()
    while rest.startswith("--"):
        name, _, rest = rest.partition(" ")
        if name not in ("--times", "--for", "--budget"):
            raise ValueError(f"unknown option {name} (expected one of: --times, --for, --budget)")
        options[name], _, rest = rest.lstrip().partition(" ")
        rest = rest.lstrip()
    if not rest.strip():
        raise ValueError(f"prompt missing; usage: {LOOP}")
    return ScheduleRequest(
        prompt=rest.strip(),
        is_from_user=True,
        cron=cron.read(expression) if expression else None,
        expression=expression,
        every_s=0 if expression else every,
        at_once=not expression,
        times=read_times(options.get("--times")),
        until=None
        if "--for" not in options
        else local_time() + timedelta(seconds=of(options["--for"])),
        budget_usd=amount(options.get("--budget")),
    )


def read_times(text: str | None) -> int | None:
    if text is not None and not (text.isascii() and text.isdigit() and 0 < int(text) < 10_000):
        raise ValueError(f"--times must be a number from 1 to 9,999, got {text}")
    return None if text is None else int(text)


def of(text: str) -> int:
    interval = parse_span(text)
    if not interval:
        raise ValueError(f"--for must be a duration such as 2h, got {text}")
    return interval


def amount(text: str | None) -> float | None:
    try:
        usd = None if text is None else float(text.removeprefix("$"))
    except ValueError:
        usd = -1.0
    if usd is not None and not 0 < usd < 10_000:
        raise ValueError(
            f"--budget must be an amount in dollars above 0 and below 10,000, such as 1.50; got {text}"
        )
    return usd


async def goal(session: Session, text: str) -> Outcome:
    it = session.parts.goal
    if not text:
        if not it.text:
            return Show(text="No goal. Set one with: /goal CONDITION")
        last = f"\nLast check: {it.last}" if it.last else ""
        return Show(
            text=f"{it.text}\n{format_count(it.checks, 'check')}, ${it.cost:.4f} spent since the goal was set{last}"
        )
    if text in ("clear", "stop", "off"):
        was = it.text
        it.clear()
        return Show(text=f"Goal cleared: {was}" if was else "No goal was set")
    it.set(text)
    return SubmitPrompt(
        text=f"Work until this goal is met, and show at the end of each turn how to verify it: {text}",
        said=f"Goal: {text}. After each turn, the small model checks whether it is met, at most "
        f"{MOST_CHECKS} times; until it is met, clew keeps working. Esc interrupts a turn; /goal clear ends the goal.",
    )


SHOWN_CHARACTERS = 20_000


async def tasks(session: Session, arguments: str) -> Outcome:
    word, _, rest = arguments.partition(" ")
    if word == "stop":
        return await stop(session, rest.strip())
    if word == "keep":
        return await keep(session, rest.strip())
    elsewhere = remote(session)
    if word in elsewhere:
        return Show(text=remote_whole(elsewhere[word]))
    if word:
        return Show(text=show_task(known(session, word)))
    rows = [(task.id, row(task)) for task in session.parts.tasks.newest_first()]
    rows += [(name, remote_row(remote_task)) for name, remote_task in elsewhere.items()]
    if not rows:
        return Show(text="No background tasks")
    page = ReportPage(
        title="Background tasks",
        summary=f"{len(session.parts.tasks.running)} running",
        groups=(pairs(rows),),
        hints=("/tasks ID shows the output", "/tasks stop [ID]", "/tasks keep ID"),
    )
    return show_page(page)


def remote(session: Session) -> dict[str, Json]:
    """Return the session's recorded remote tasks, except those that this process is following."""
    recorded = read_remote_agents(session.parts.agents.place)
    return {name: about for name, about in recorded if session.parts.tasks.get(name) is None}


def remote_row(remote_task: Json) -> str:
    title = next(
        (t for key in ("title", "command") if isinstance(t := remote_task.get(key), str)), ""
    )
    if isinstance(status := remote_task.get("status"), str) and "server" in remote_task:
        return f"remote agent {status}: {title}"
    return f"remote agent of another program, status unknown: {title or 'no title'}"


def remote_whole(remote_task: Json) -> str:
    details = format_table(
        (key, str(value)) for key, value in remote_task.items() if isinstance(value, (str, int))
    )
    return f"{remote_row(remote_task)}\n{details}"


async def stop(session: Session, name: str) -> Outcome:
    """Stop one task, or all of them."""
    running = session.parts.tasks.running
    chosen = running if name in ("", "all") else [known(session, name)]
    for task in chosen:
        await session.parts.tasks.stop(task)
    stopped = ", ".join(task.id for task in chosen) or "no tasks"
    return Show(text=f"Stopped {stopped}")


async def keep(session: Session, name: str) -> Outcome:
    """Keep a background command running after clew exits."""
    if not name:
        raise UserError("specify a task: /tasks keep ID (/tasks lists the tasks)")
    task = known(session, name)
    await session.parts.tasks.keep(task)
    return Show(text=describe_kept_tasks(task))


def describe_kept_tasks(task: BackgroundTask) -> str:
    return f"{task.id} will keep running after clew exits. Manage it with `clew tasks`."


def known(session: Session, name: str) -> BackgroundTask:
    task = session.parts.tasks.get(name)
    if task is None and name in remote(session):
        raise UserError(f"{name} runs in another program; stop it there")
    if task is None:
        ids = ", ".join(task.id for task in session.parts.tasks.all()) or "none"
        raise UserError(f'unknown task "{name}" (expected one of: {ids})')
    return task


def row(task: BackgroundTask) -> str:
    """Return a task in one line: kind, status, title, and the work so far."""
    about = f"{task.kind} {task.status}{', kept' if task.is_kept else ''}: {task.title}"
    return " · ".join([about, *describe_work(task)])


def describe_task(task: BackgroundTask) -> str:
    """Return a task's status and work: `running · 12 calls · 8.1k tokens · 34s · Bash`."""
    notes = ["keeps running after exit"] if task.is_kept else []
    return " · ".join([task.status, *notes, *describe_work(task)])


def describe_work(task: BackgroundTask) -> list[str]:
    """Return the calls and tokens of an agent, the time, and the running agent's last tool."""
    parts = []
    used = task.usage
    if used is not None:
        parts.append(format_count(used.tool_uses, "call") if used.tool_uses else "")
        parts.append(f"{format_tokens(used.tokens)} tokens" if used.tokens else "")
    if not task.is_of_before:
        parts.append(format_duration(task.duration_ms / 1000))
    if used is not None and task.ending is None:
        parts.append(used.last_tool)
    return [part for part in parts if part]


def show_task(task: BackgroundTask) -> str:
    task.output.look()
    first, last = task.output.since(0, SHOWN_CHARACTERS)
    output = (first + last).decode("utf-8", "replace").rstrip()
    ending = task.ending
    parts = [row(task), output]
    if ending is not None:
        parts += [ending.words, "" if ending.result in output else ending.result]
    if task.file is not None:
        parts.append(f"output file: {task.file}")
    return "\n".join(part for part in parts if part)


async def background(session: Session, prompt: str) -> Outcome:
    """Move the running turn to the background, or start a prompt in the background.

    The prompt then runs with a copy of the conversation so far.
    """
    if prompt:
        task = await session.parts.agents.leaving.beside(prompt)
        return Show(text=f"Agent {task.id} is working on it. /tasks {task.id} shows its progress.")
    if session.parts.agents.leaving.ask():
        return Show(text="This turn will move to the background at its next step")
    return Show(text="No turn is running. /background PROMPT starts one in the background.")


async def agents(session: Session, arguments: str) -> Outcome:
    word, _, rest = arguments.partition(" ")
    if word == "merge":
        return Show(text=await session.parts.agents.all.checkouts.merged(rest.strip()))
    if word == "discard":
        await session.parts.agents.all.checkouts.discarded(rest.strip())
        return Show(text=f"Discarded the worktree of agent {rest.strip()}")
    if word:
        return Show(text=described(session.parts.agents.spec(word)))
    catalog = session.parts.agents.catalog
    rows = [
        (spec.name, f"{cut(first_line(spec.description), LONG // 4)} ({origin(spec)})")
        for spec in catalog
    ]
    groups = [pairs(rows)]
    if catalog.shadowed:
        hidden = [(spec.name, origin(spec)) for spec in catalog.shadowed]
        groups.append(pairs(hidden, "Hidden by another agent with the same name"))
    if faults := session.parts.agents.faults:
        groups.append(pairs([(f"! {fault}", "") for fault in faults], "Errors"))
    hints = (
        "/agents NAME shows a subagent",
        "/agents merge | discard ID merges or discards a worktree",
    )
    return show_page(ReportPage(title="Subagents", groups=tuple(groups), hints=hints))


def origin(spec: AgentSpec) -> str:
    return f"{spec.origin} {spec.where}".rstrip()


def first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]


def described(spec: AgentSpec) -> str:
    rows = [
        ("from", origin(spec)),
        ("use", " ".join(spec.description.split())),
        ("tools", "all" if spec.tools is None else ", ".join(spec.tools) or "none"),
        ("denied", ", ".join(spec.disallowed)),
        ("model", spec.model or "same as the session"),
        ("mode", spec.mode or "same as the session"),
        ("turns", "" if spec.max_turns is None else f"at most {spec.max_turns}"),
        ("memory", spec.memory or ""),
        ("skills", ", ".join(spec.skills)),
        ("MCP", ", ".join([*spec.named_servers, *(f"{name} (private)" for name in spec.servers)])),
        ("hooks", ", ".join(spec.hooks)),
        ("runs", "in its own worktree" if spec.in_worktree else ""),
        ("", "in the background" if spec.background else ""),
    ]
    return f"{spec.name}\n{format_table((k, v) for k, v in rows if v)}\n\n{spec.prompt}"


HANDLERS: SlashHandlers = {
    "agents": agents,
    "background": background,
    "goal": goal,
    "loop": loop,
    "tasks": tasks,
}
