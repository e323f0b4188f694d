"""What a command line names and is not there: tools in rules, folders, a
session to go on with. Said at the start; nothing is refused."""

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from pathlib import Path

from clew.options import Options
from clew.permissions.request import MCP_PREFIX, TOOLS
from clew.permissions.rules import RULE
from clew.tools.registry import builtin_tools


def named_in_vain(
    options: Options, cwd: str, offered: Collection[str], *, is_new: bool
) -> tuple[str, ...]:
    """`is_new`: no session is gone on with."""
    nothing_before = ("--continue: this folder has no session yet; this is its first",)
    return (
        *(nothing_before if options.continues and is_new else ()),
        *tools_in_vain(options, offered),
        *folders_in_vain(options, cwd),
    )


def tools_in_vain(options: Options, offered: Collection[str]) -> Iterator[str]:
    """A rule for a tool that nobody has allows or denies nothing. Servers' tools may come later."""
    rules = (("--allowedTools", options.allow), ("--disallowedTools", options.deny))
    if not (options.allow or options.deny):
        return
    known = {*TOOLS, *offered, *(tool.name for tool in builtin_tools())}
    by_letters = {name.lower(): name for name in sorted(known)}
    for flag, texts in rules:
        for text in texts:
            read = RULE.fullmatch(text)
            if read is None or read[1] in known or read[1].startswith(MCP_PREFIX) or "*" in read[1]:
                continue  # what cannot be read is complained of where rules are read
            near = get_close_matches(read[1].lower(), by_letters, n=1)
            hint = f"; did you mean {by_letters[near[0]]}?" if near else ""
            yield f"{flag} {text}: there is no tool {read[1]}{hint}"


def folders_in_vain(options: Options, cwd: str) -> Iterator[str]:
    for name in options.directories:
        folder = Path(cwd, Path(name).expanduser())
        if not folder.is_dir():
            what = "is no folder" if folder.exists() else "is not there"
            yield f"--add-dir {name}: {folder} {what}; it counts as soon as it is a folder"
