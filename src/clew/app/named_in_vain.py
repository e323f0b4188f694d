"""What a command line or settings name and is not there: tools in rules, folders, a
session to go on with. Said at the start; nothing is refused."""

from collections.abc import Collection, Iterator
from pathlib import Path

from clew.config.there import is_folder, is_there
from clew.options import Options
from clew.permissions.named import unknown_tool
from clew.permissions.session_rules import Standing, few, in_vain


def named_in_vain(
    options: Options, standing: Standing, offered: Collection[str], *, is_new: bool
) -> tuple[str, ...]:
    """`is_new`: no session is gone on with."""
    nothing_before = ("--continue: this folder has no session yet; this is its first",)
    return (
        *(nothing_before if options.continues and is_new else ()),
        *tools_in_vain(options, standing, offered),
        *folders_in_vain(options, standing.context.cwd),
    )


def tools_in_vain(
    options: Options, standing: Standing, offered: Collection[str]
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
