"""What a paste means: text, or the picture in the file whose name was dropped on the terminal."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from clew.commands.pasted import Pasted
from clew.config.regular import content
from clew.process.programs import Programs

PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
# More than the service takes; `Read` makes larger ones smaller.
PICTURE_MAX_BYTES = 5 << 20
NAME_MAX_CHARACTERS = 4_096
# Programs that print the picture on the clipboard, by what the session has.
CLIPBOARDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("linux", "WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("linux", "DISPLAY", ("xclip", "-selection", "clipboard", "-t", "image/png", "-o")),
    ("darwin", "", ("pngpaste", "-")),
)


def picture(text: str, cwd: str) -> bytes | None:
    """The bytes of the picture that the text names, if it names one and nothing else."""
    name = text.strip()
    if "\n" in name or len(name) > NAME_MAX_CHARACTERS:
        return None
    name = _unquoted(name)
    if not name.lower().endswith(PICTURES):
        return None
    try:
        path = Path(cwd, Path(name).expanduser())
        if path.stat().st_size > PICTURE_MAX_BYTES:
            return None
        data = content(path)
    except (OSError, ValueError, RuntimeError):
        return None  # no such file, a name that none can have, a home that nobody has
    return data if Pasted(number=0, data=data).media_type else None


def _unquoted(name: str) -> str:
    """A name as terminals spell what is dropped on them: in quotes, with backslashes, as an address."""
    if name.startswith("file://"):
        return unquote(urlsplit(name).path)
    if len(name) > 1 and name[0] == name[-1] and name[0] in "'\"":
        return name[1:-1]
    return name.replace("\\ ", " ").replace("\\(", "(").replace("\\)", ")")


async def from_clipboard(environ: Mapping[str, str]) -> bytes | str:
    """The picture on the clipboard; words for the person where there is none."""
    wanted = [argv for system, needs, argv in CLIPBOARDS if _fits(system, needs, environ)]
    for argv in wanted:
        if shutil.which(argv[0], path=environ.get("PATH")) is None:
            continue
        programs = Programs(os.curdir, environ)
        try:
            data = await programs.printed(argv, most_bytes=PICTURE_MAX_BYTES)
        finally:
            await programs.aclose()
        if data and Pasted(number=0, data=data).media_type:
            return data
        return "there is no picture on the clipboard"
    names = " or ".join(argv[0] for argv in wanted)
    return f"pictures come from the clipboard through {names}" if names else "there is no clipboard"


def _fits(system: str, needs: str, environ: Mapping[str, str]) -> bool:
    return sys.platform.startswith(system) and (not needs or bool(environ.get(needs)))
