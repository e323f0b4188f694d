"""A command line and its readings, each computed at most once.

A line has two readings. The command grammar decides whether anything is allowed; the syntax tree
finds what deny and ask rules name in any line. Both depend only on the text, not on a folder or an
environment, so a reading is valid wherever the same text runs.

Decision: docs/decisions/060-permission-decisions.md
"""

from functools import cached_property

from msgspec import Struct

from clew.permissions.grammar import Unread, is_sure, read_line
from clew.permissions.shell import Script, split
from clew.permissions.wrappers import Everything, open_wrappers

# The whitespace characters of bash. Python's `str.strip` removes more.
BLANKS = " \t\n"


class CommandLine(Struct, frozen=True, dict=True):
    """A command line and its readings, all of which come from exactly this text."""

    command: str

    @cached_property
    def text(self) -> str:
        """The line without surrounding whitespace."""
        return self.command.strip(BLANKS)

    @cached_property
    def strict(self) -> Script | Unread:
        """The line as the command grammar reads it, or why the grammar does not accept it."""
        return read_line(self.text)

    @cached_property
    def tree(self) -> Script:
        """The line's syntax tree, available for any line (unlike `strict`)."""
        return split(self.text)

    @cached_property
    def strict_parts(self) -> Everything:
        """All commands that the line starts, according to the grammar.

        Only available if the grammar accepts the line.
        """
        assert not isinstance(self.strict, Unread)
        return open_wrappers(self.strict)

    @cached_property
    def tree_parts(self) -> Everything:
        """All commands that the line starts, according to the syntax tree."""
        return open_wrappers(self.tree)

    @property
    def is_sure(self) -> bool:
        """True if the line is so simple that it can only be read in one way."""
        return is_sure(self.text)

    @property
    def parts(self) -> Everything:
        """All commands that the line starts.

        A line that can only be read in one way does not need the syntax tree, whose construction
        costs more than everything else together.
        """
        is_plain = self.is_sure and not isinstance(self.strict, Unread)
        return self.strict_parts if is_plain else self.tree_parts


def read_once(line: CommandLine | None, command: str) -> CommandLine:
    """Return the given reading if it is for exactly this command, otherwise a new one."""
    return line if line is not None and line.command == command else CommandLine(command)
