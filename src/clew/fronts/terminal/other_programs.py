"""Run a program that takes over the terminal for a while, such as the user's editor."""

import asyncio
import os
import shlex
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from clew.fronts.terminal.screen import Screen

# Runs a program that takes over the terminal.


async def in_foreground(argv: Sequence[str]) -> int:
    """Run a program in the foreground and return its exit code. Raise OSError if it can't start."""
    # Ctrl-C goes to that program only.
    was = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = await asyncio.create_subprocess_exec(
            *argv, preexec_fn=None, env=os.environ, start_new_session=False
        )
        return await child.wait()
    finally:
        signal.signal(signal.SIGINT, was)


class EditedText(Struct, frozen=True, kw_only=True):
    """The edited text, or an error message."""

    text: str = ""
    trouble: str = ""


async def edit_text(screen: Screen, text: str, environ: Mapping[str, str]) -> EditedText:
    """Let the user edit a text in the editor that `$VISUAL` or `$EDITOR` names, or in vi."""
    editor = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    try:
        with written("prompt.md", text) as path:
            trouble = await shown_in(screen, editor, path)
            return EditedText(trouble=trouble) if trouble else EditedText(text=read(path))
    except OSError as error:  # the disk is full, or the editor removed the file
        return EditedText(trouble=f"{editor}: {error.strerror or error}")


@contextmanager
def written(name: str, text: str) -> Iterator[Path]:
    """Write a temporary file that only the user can read; remove it when the context ends."""
    with tempfile.TemporaryDirectory(prefix="clew-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, name)
        path.write_text(text, "utf-8")
        yield path


def read(path: Path) -> str:
    return path.read_text("utf-8", "replace").rstrip("\n")


async def shown_in(screen: Screen, editor_command: str, path: Path) -> str:
    try:
        program = shlex.split(editor_command)
        async with screen.away():
            code = await in_foreground([*program, str(path)])
    except (OSError, ValueError) as error:
        return f"{editor_command}: {error}"
    return f"{editor_command} exited with code {code}" if code else ""
