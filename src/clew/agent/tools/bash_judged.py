"""Judge by its text whether a command line may change or destroy anything.

A command line that can't be parsed is assumed to do both.
"""

from clew.permissions.grammar import Unread
from clew.permissions.reading import CommandLine
from clew.permissions.readonly import only_reads
from clew.permissions.wrappers import CommandPart, get_basename

MOVES = frozenset({"cd", "pushd", "popd"})
NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
DESTROYS = frozenset({"rm", "rmdir", "unlink", "shred", "truncate", "dd", "wipefs", "srm", "mv"})
DESTROYING_GIT = {
    "reset": {"--hard"},
    "clean": set[str](),
    "push": {"--force", "-f", "--force-with-lease", "--delete", "-d", "--mirror"},
    "checkout": {"--", ".", "-f", "--force"},
    "restore": set[str](),
    "branch": {"-D", "-d", "--delete"},
    "stash": {"drop", "clear"},
    "reflog": {"expire", "delete"},
    "gc": {"--prune=now"},
}


def changes_nothing(line: CommandLine) -> bool:
    """Return whether every part of a command line is known to change nothing outside the shell."""
    seen = line.parts
    if (
        isinstance(line.strict, Unread)
        or seen.script.problems
        or any(
            redirect.writes and redirect.word.text not in NOWHERE
            for redirect in seen.script.redirects
        )
    ):
        return False
    return bool(seen.parts) and all(part_looks(part) for part in seen.parts)


def part_looks(part: CommandPart) -> bool:
    return not part.problems and (part.plain_wrapper or only_reads(part.command))


def may_move(line: CommandLine) -> bool:
    """Return whether the command may end in a different folder than the one it began in."""
    return any(part.command.name in MOVES for part in line.parts.parts)


def may_end_elsewhere(line: CommandLine) -> bool:
    """Return whether the shell itself may end in another folder than the one it began in.

    Programs that the shell starts can't change its folder, but could report another one in its
    name.
    """
    seen = line.parts
    moving = MOVES | {".", "source", "eval"}
    return (
        isinstance(line.strict, Unread)
        or bool(seen.script.problems)
        or any(part.problems or part.command.name in moving for part in seen.parts)
    )


def may_destroy(line: CommandLine) -> bool:
    """Return whether a part of the command line is known to be destructive or can't be parsed."""
    seen = line.parts
    return bool(seen.script.problems) or any(destroys(part) for part in seen.parts)


def destroys(part: CommandPart) -> bool:
    if part.problems or not part.command.words:
        return bool(part.problems)
    name = get_basename(part.command.words[0])
    words = [word.text for word in part.command.words[1:]]
    if name == "git":
        return any(
            verb in words and (not marks or not marks.isdisjoint(words))
            for verb, marks in DESTROYING_GIT.items()
        )
    return name in DESTROYS or name.startswith("mkfs") or (name == "find" and "-delete" in words)
