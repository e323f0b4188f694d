"""Notices that the user sees when a session opens, other than those of the session's parts."""

from collections.abc import Collection, Iterator
from pathlib import Path

from clew.agent.options import Options
from clew.parts.context import Ground, Thread
from clew.permissions.modes import unknown_tool
from clew.permissions.session_rules import CurrentRules, find_unused_rules, limit_complaints
from clew.session.session import Session
from clew.system.clock import get_timestamp
from clew.system.config.settings import read_list
from clew.system.files import is_folder, is_there


def collect_notices(ground: Ground, thread: Thread, offered: Collection[str]) -> tuple[str, ...]:
    """Return notices about problems in settings and options, and about a resumed session."""
    return (
        *ground.environment.faults,
        *ground.began.complaints,
        *ground.service.problems,
        *find_unused_names(ground.options, ground.began, offered, is_new=thread.loaded is None),
        *describe_left_checkout(ground, thread),
        *describe_gaps(thread),
        *thread.lost,
    )


def describe_left_checkout(ground: Ground, thread: Thread) -> tuple[str, ...]:
    """Return a notice that names a resumed session's worktree if clew is not running in it."""
    if thread.loaded is None or ground.options.worktree is not None:
        return ()
    was = thread.loaded.side.current.get("worktree-state", {}).get("worktreeSession")
    path = was.get("worktreePath") if isinstance(was, dict) else None
    if not isinstance(path, str) or ground.cwd.startswith(path) or not is_folder(path):
        return ()
    name = Path(path).name
    return (f"this session ran in {path}; to resume it there, run clew --worktree {name} --resume",)


def choose_announcement(session: Session) -> str | None:
    """Return one of the company's announcements, chosen by the session's ID; None without any."""
    texts = read_list(session.rules.standing.settings, "companyAnnouncements") or ()
    return texts[sum(session.session_id.encode()) % len(texts)] if texts else None


def describe_gaps(thread: Thread) -> tuple[str, ...]:
    """Return a notice about transcript entries that were lost because the file is damaged."""
    lost = [] if thread.loaded is None else thread.loaded.gaps()
    if not lost:
        return ()
    where = f"before line {lost[0].number}" if len(lost) == 1 else f"in {len(lost)} places"
    return (
        f"part of this conversation is missing {where} of its transcript; "
        f"for details, run clew sessions check {thread.session_id}",
    )


def describe_return(ground: Ground, thread: Thread) -> tuple[str, ...]:
    """Return a summary for a user who returns to a session at a terminal."""
    if thread.loaded is None or ground.options.is_print:
        return ()
    from clew.parts.away import summarise_absence
    from clew.parts.memory.remembering import notebook_of

    notebook = notebook_of(ground.began.places)
    return summarise_absence(thread.loaded, thread.spending.state.todos, notebook, get_timestamp())


# Names in the command line or settings that do not exist: tools in rules, folders, a session to
# resume. They cause only notices, never errors.


def find_unused_names(
    options: Options, standing: CurrentRules, offered: Collection[str], *, is_new: bool
) -> tuple[str, ...]:
    """Return notices about names that match nothing. `is_new` means that no session is resumed."""
    nothing_before = ("--continue: no session to continue in this folder; starting a new session",)
    return (
        *options.ignored,
        *(nothing_before if options.continues and is_new else ()),
        *find_unused_tools(options, standing, offered),
        *find_unused_folders(options, standing.context.cwd),
    )


def find_unused_tools(
    options: Options, standing: CurrentRules, offered: Collection[str]
) -> tuple[str, ...]:
    flags = (("--allowedTools", options.allow), ("--disallowedTools", options.deny))
    complaints = [
        f"--tools: {why}" for name in options.tools or () if (why := unknown_tool(name, offered))
    ]
    complaints += [
        f"{flag} {text}: {why}"
        for flag, texts in flags
        for text in texts
        if (why := unknown_tool(text, offered)) is not None
    ]
    of_flags = {text.strip() for _, texts in flags for text in texts}
    complaints += [
        rule.message
        for rule in find_unused_rules(standing, offered)
        if rule.scope != "cli" or rule.text not in of_flags
    ]
    return limit_complaints(complaints)


def find_unused_folders(options: Options, cwd: str) -> Iterator[str]:
    for name in options.directories:
        folder = Path(cwd, Path(name).expanduser())
        if not is_folder(folder):
            what = "is not a folder" if is_there(folder) else "does not exist"
            yield f"--add-dir {name}: {folder} {what}; clew will use it once the folder exists"
