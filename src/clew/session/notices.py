"""What the user is told when a session opens, besides the notices of its parts."""

from collections.abc import Collection, Iterator
from pathlib import Path

from clew.agent.options import Options
from clew.parts.context import Ground, Thread
from clew.permissions.modes import unknown_tool
from clew.permissions.session_rules import CurrentRules, few, in_vain
from clew.session.thread import unbounded
from clew.system.clock import now
from clew.system.files import is_folder, is_there


def first_notices(ground: Ground, thread: Thread, offered: Collection[str]) -> tuple[str, ...]:
    """Return what is wrong with settings and options, and what became of a session that is resumed."""
    return (
        *ground.environment.faults,
        *ground.began.complaints,
        *ground.service.problems,
        *returned(ground, thread),
        *unbounded(ground.options, thread.model),
        *named_in_vain(ground.options, ground.began, offered, is_new=thread.loaded is None),
        *left_checkout(ground, thread),
        *gaps(thread),
        *thread.lost,
    )


def left_checkout(ground: Ground, thread: Thread) -> tuple[str, ...]:
    """Where a session that goes on elsewhere than in its own checkout worked before."""
    if thread.loaded is None or ground.options.worktree is not None:
        return ()
    was = thread.loaded.side.current.get("worktree-state", {}).get("worktreeSession")
    path = was.get("worktreePath") if isinstance(was, dict) else None
    if not isinstance(path, str) or ground.cwd.startswith(path) or not is_folder(path):
        return ()
    name = Path(path).name
    return (f"this session worked in {path}; clew --worktree {name} --resume goes on there",)


def gaps(thread: Thread) -> tuple[str, ...]:
    """What of the conversation somebody should know that a damaged file lost."""
    lost = [] if thread.loaded is None else thread.loaded.gaps()
    if not lost:
        return ()
    where = f"before line {lost[0].number}" if len(lost) == 1 else f"in {len(lost)} places"
    return (
        f"something of this conversation is lost {where} of its file; "
        f"clew sessions check {thread.session_id} says more",
    )


def returned(ground: Ground, thread: Thread) -> tuple[str, ...]:
    """What somebody finds who comes back to a session at a terminal."""
    if thread.loaded is None or ground.options.is_print:
        return ()
    from clew.parts.away import summary
    from clew.parts.memory.remembering import notebook_of

    notebook = notebook_of(ground.began.places)
    return summary(thread.loaded, thread.spending.state.todos, notebook, now())


# What a command line or settings name and is not there: tools in rules, folders, a session to resume.
# Nothing is refused.


def named_in_vain(
    options: Options, standing: CurrentRules, offered: Collection[str], *, is_new: bool
) -> tuple[str, ...]:
    """`is_new`: no session is gone on with."""
    nothing_before = ("--continue: this folder has no session yet; this is its first",)
    return (
        *(nothing_before if options.continues and is_new else ()),
        *tools_in_vain(options, standing, offered),
        *folders_in_vain(options, standing.context.cwd),
    )


def tools_in_vain(
    options: Options, standing: CurrentRules, offered: Collection[str]
) -> tuple[str, ...]:
    flags = (("--allowedTools", options.allow), ("--disallowedTools", options.deny))
    told = [
        f"{flag} {text}: {why}"
        for flag, texts in flags
        for text in texts
        if (why := unknown_tool(text, offered)) is not None
    ]
    of_flags = {text.strip() for _, texts in flags for text in texts}
    told += [
        rule.told
        for rule in in_vain(standing, offered)
        if rule.scope != "cli" or rule.text not in of_flags
    ]
    return few(told)


def folders_in_vain(options: Options, cwd: str) -> Iterator[str]:
    for name in options.directories:
        folder = Path(cwd, Path(name).expanduser())
        if not is_folder(folder):
            what = "is no folder" if is_there(folder) else "is not there"
            yield f"--add-dir {name}: {folder} {what}; it counts as soon as it is a folder"
