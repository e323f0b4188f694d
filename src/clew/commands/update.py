"""`clew update`: show how clew was installed, check for a newer version, and update clew.

The installer does the update; clew never replaces its own files. Nothing runs automatically except
the check that the setting `updateNotice` enables.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from clew.core.messages.errors import UserError
from clew.system.command_groups import Group, show
from clew.system.config.own_files import read_own, write_own
from clew.system.installation import Installation, find_installation
from clew.system.process.programs import OWN_COMMAND
from clew.version import VERSION

CHECK_EVERY_S = 24 * 3600
CHECK_TIMEOUT_S = 60
_NEWER = re.compile(r"\bclew[-=]+(\d+(?:\.\d+)+)")


def find_newest(installation: Installation) -> str | None:
    """Return the newest version according to the installer, or None if that fails.

    The installer uses its own configuration: its package index, proxy and certificates.
    """
    if not installation.query or shutil.which(installation.query[0]) is None:
        return None
    try:
        done = subprocess.run(
            installation.query,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=CHECK_TIMEOUT_S,
            check=False,
            cwd=os.sep,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    versions: list[str] = _NEWER.findall(done.stdout.decode("utf-8", "replace"))
    return max([VERSION, *versions], key=order)


def order(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, for comparing versions."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def update(installation: Installation) -> int:
    """Run the installer to update clew, and return its exit code.

    It runs outside of the current folder, whose configuration could name another package index.
    """
    program = installation.command[0]
    if shutil.which(program) is None:
        raise UserError(
            f"{program} not found on the PATH; it is required to update clew, because clew was installed "
            f"by {installation.by}"
        )
    show(f"$ {shlex.join(installation.command)}")
    sys.stdout.flush()
    return subprocess.run(installation.command, check=False, cwd=os.sep).returncode


def record_newest(own: Path, newest: str | None) -> None:
    """Record the result of a check, for the notice at the start of a session."""
    write_own(own / "update.json", {"newest": newest, "checkedAt": int(time.time())})


def find_notice(own: Path) -> str:
    """Return a notice if the last check found a newer version, and start a check once a day.

    The check runs in a separate process, which the session does not wait for.
    """
    record = read_own(own / "update.json")
    checked_at = record.get("checkedAt")
    is_recent = isinstance(checked_at, int) and 0 <= time.time() - checked_at < CHECK_EVERY_S
    if not is_recent and claim_check(own, record.get("newest")):
        subprocess.Popen(
            [*OWN_COMMAND, "update", "--check"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=os.sep,
            start_new_session=True,
        )
    newest = record.get("newest")
    if isinstance(newest, str) and order(newest) > order(VERSION):
        return f"clew {newest} is available (this is {VERSION}); run: clew update"
    return ""


def claim_check(own: Path, newest: str | None) -> bool:
    """Record that a check begins, so that other sessions do not check as well.

    Return False if the record can't be written. The caller then skips the check, because without a
    record every session would check.
    """
    try:
        record_newest(own, newest)
    except OSError:
        return False
    return True


def describe(installation: Installation, newest: str | None) -> Sequence[str]:
    lines = [f"clew {VERSION}, installed by {installation.by}"]
    if newest is not None:
        is_newer = order(newest) > order(VERSION)
        lines.append(f"newest version: {newest}" if is_newer else "this is the newest version")
    elif installation.query:
        lines.append("newest version: unknown (can't reach the package index)")
    return [*lines, f"to update: {installation.advice or shlex.join(installation.command)}"]


def main(argv: list[str]) -> int:
    parser = Group(
        prog="clew update",
        description="Show how clew was installed, check for a newer version, and update clew after"
        " you confirm. The tool that installed clew does the update.",
    )
    parser.add_argument("--check", action="store_true", help="Only check for a newer version")
    parser.add_argument("-y", "--yes", action="store_true", help="Update without confirmation")
    options = parser.parse_args(argv)
    installation = find_installation()
    newest = find_newest(installation)
    if options.check:
        from clew.system.config.paths import find_places

        record_newest(find_places(os.environ, Path.cwd()).own, newest)
    for line in describe(installation, newest):
        show(line)
    if options.check or not installation.command:
        return 0
    if newest is not None and order(newest) <= order(VERSION):
        return 0
    if not options.yes:
        if not sys.stdin.isatty():
            show("nothing was updated; to update without a terminal, run clew update --yes")
            return 0
        sys.stdout.write("Update now? [y/N] ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return 0
    return update(installation)
