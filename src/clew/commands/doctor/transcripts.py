"""Check whether sessions can be read and written, need to be restored, or are damaged.

Decision: docs/decisions/053-transcript-repair.md
"""

import os
import shutil
from collections.abc import Container, Iterator
from pathlib import Path

from clew.commands.doctor.finding import DoctorFinding, make_fault, make_fine, note
from clew.core.messages.text import format_count
from clew.permissions.session_rules import CurrentRules
from clew.record.transcript import choose, light, paths
from clew.record.transcript.copies import find_repaired_copy
from clew.record.transcript.examine import Examination, examine
from clew.record.transcript.files import Files
from clew.record.transcript.recovery import list_all_copies
from clew.record.transcript.repair import (
    has_mendable,
    is_lost,
    is_needed,
    is_possible,
    why_it_stays,
)
from clew.record.transcript.running import list_running
from clew.system.files import is_folder, is_link, is_there, why_closed

SUBJECT = "transcripts"
EXAMINED_SESSIONS = 10
EXAMINED_BYTES = 64 << 20
LOW_SPACE_BYTES = 200_000_000


def check_transcripts(standing: CurrentRules) -> Iterator[DoctorFinding]:
    home, cwd = standing.places.config_home, str(standing.places.cwd)
    folder = paths.get_project_dir(home, cwd)
    closed, nearest = why_closed(folder), nearest_to(folder)
    own = f"{suggest_fix(nearest)}, or set CLEW_CONFIG_DIR to another folder"
    if closed is not None:
        words = f"{closed}: its sessions cannot be resumed, and new sessions are kept"
        yield make_fault(SUBJECT, f"{words} {keeper(home)}", own)
    elif not takes(folder):
        words = f"{nearest} is not writable, so new sessions are kept {keeper(home)}"
        yield make_fault(SUBJECT, words, own)
    free = shutil.disk_usage(next(filter(is_there, (folder, *folder.parents)))).free
    if free < LOW_SPACE_BYTES:
        yield make_fault(
            SUBJECT,
            f"only {free / 1e6:.0f} MB of disk space is free at {nearest}",
            "free some space; run clew sessions du to see what sessions use",
        )
    aside = why_closed(paths.rescue_dirs(home)[0])
    if aside is not None and closed is None:
        words = f"{aside}: it may contain recovery files, so no session can be resumed"
        yield make_fault(SUBJECT, words, suggest_fix(nearest_to(paths.rescue_dirs(home)[0])))
    copies_by_session = list_all_copies(home)
    for session, copies in copies_by_session.items():
        yield check_unsaved(home, cwd, session, copies)
    if closed is None:
        yield from examined(home, cwd, copies_by_session)


def nearest_to(path: Path) -> Path:
    """Return the longest existing prefix of a path. A broken link is regarded as existing."""
    return next(
        ancestor for ancestor in (path, *path.parents) if is_there(ancestor) or is_link(ancestor)
    )


def suggest_fix(path: Path) -> str:
    """Return what to do so that sessions can be saved at this path again."""
    if is_folder(path) or path.suffix == ".jsonl":
        return f"change the owner or permissions of {path} (chown, chmod)"
    return f"fix the link {path}" if is_link(path) else f"replace {path} with a folder"


def takes(folder: Path) -> bool:
    """Return whether files can be created in a folder, or in the folder once it is created."""
    nearest = nearest_to(folder)
    return is_folder(nearest) and os.access(nearest, os.W_OK | os.X_OK)


def keeper(home: Path) -> str:
    """Return a phrase that says where a session is saved if its own folder is not writable."""
    for folder in paths.rescue_dirs(home):
        if takes(folder) and (not is_there(folder) or Files().is_private(folder)):
            return f"in {folder}"
    return "only in memory"


def check_unsaved(home: Path, cwd: str, session: str, copies: list[Path]) -> DoctorFinding:
    """Report the recovery file of a session and how to restore it."""
    copy, omitted_count = copies[0], len(copies) - 1
    place = choose.place_of_copy(home, cwd, session, copy)
    if copy.name.startswith(paths.AGENT):
        place = place.with_suffix("")  # only its subagents' transcripts are incomplete
    also = f" (and {format_count(omitted_count, 'more file')})" if omitted_count else ""
    words = f"{place} could not be written; the rest of the session is in the recovery file {copy}{also}"
    closed = not_taking(place)
    first = f"{suggest_fix(closed)}; then " if closed else ""
    running = next(
        (running for running in list_running(home) if running.session_id == session), None
    )
    if running is not None:
        who = "this session" if running.pid == os.getpid() else str(running)
        return make_fault(SUBJECT, words, f"{first}{who} will restore it")
    return make_fault(SUBJECT, words, f"{first}run clew --resume {session} to restore it")


def not_taking(place: Path) -> Path | None:
    """Return the path that prevents writing to a transcript, or None."""
    if is_there(place):
        return None if os.access(place, os.R_OK | os.W_OK) else place
    return None if takes(place.parent) else nearest_to(place.parent)


def examined(home: Path, cwd: str, copies: Container[str]) -> Iterator[DoctorFinding]:
    """Yield findings about the format of this folder's newest sessions."""
    files = [
        f for folder in choose.list_folders(home, cwd) for f in light.list_session_files(folder)
    ]
    sound = 0
    for path in files[:EXAMINED_SESSIONS]:
        try:
            if path.stat().st_size > EXAMINED_BYTES:
                large = f"{path} was not checked because of its size"
                yield note(SUBJECT, large, f"clew sessions check {path.stem}")
                continue
            examination = examine(path)
        except OSError as error:
            words = f"{path} cannot be read: {error.strerror}"
            yield make_fault(
                SUBJECT, words, f"change its owner (chown) or permissions: chmod u+rw {path}"
            )
            continue
        if not os.access(path, os.W_OK) and path.stem not in copies:
            words = f"{path} is not writable, so new messages are kept {keeper(home)}"
            yield make_fault(
                SUBJECT, words, f"change its owner (chown) or permissions: chmod u+w {path}"
            )
        if examination.problems:
            yield damaged(examination)
        elif examination.loaded.size_bytes == 0:
            yield note(SUBJECT, f"{path} is empty")
        else:
            sound += 1
    of = "of this folder's newest sessions"
    rest = len(files) - EXAMINED_SESSIONS
    remark = f"{format_count(rest, 'older session was', 'older sessions were')} not checked (run clew sessions check)"
    if sound:
        words = format_count(sound, f"{of} is valid", f"{of} are valid")
        yield make_fine(SUBJECT, f"{words}; {remark}" if rest > 0 else words)
    elif rest > 0:
        yield note(SUBJECT, remark)
    elif not files and next(choose.list_unsaved(home, cwd), None) is None:
        yield make_fine(SUBJECT, "no sessions in this folder yet")


def damaged(examination: Examination) -> DoctorFinding:
    """Report a damaged session.

    The damage is a fault only if it can be repaired and has not been. The session can be resumed in
    any case.
    """
    session, omitted_count = examination.path.stem, len(examination.problems) - 1
    worst = (examination.errors or examination.problems)[0]
    words = f"{examination.path}: {worst}"
    words += f", and {omitted_count} more" if omitted_count else ""
    if is_lost(examination):
        aside = f"nothing in this file can be recovered; to archive it, run clew sessions archive {session}"
        return note(SUBJECT, words, aside)
    if not has_mendable(examination):
        return note(SUBJECT, words, why_it_stays(worst, session))
    copy = find_repaired_copy(examination.path, examination.loaded)
    if copy is not None:
        aside = f"to archive the damaged session, run clew sessions archive {session}"
        return note(SUBJECT, f"{words}; the repaired copy is {copy.stem}", aside)
    if is_needed(examination) and not is_possible(examination.path):
        return note(
            SUBJECT, words, "the session can be resumed as it is; a repair would lose part of it"
        )
    if is_needed(examination):
        remedy = f"run clew sessions repair {session} (the session can also be resumed as it is)"
        return (
            make_fault(SUBJECT, words, remedy)
            if examination.errors
            else note(SUBJECT, words, remedy)
        )
    return note(
        SUBJECT,
        words,
        f"the session can be resumed as it is; for a copy without this problem, run clew sessions repair --warnings {session}",
    )
