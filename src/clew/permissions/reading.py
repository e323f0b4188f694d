"""A command line with what its readers make of it, each asked at most once.

Two readers see a line: the strict grammar, without which nothing is allowed, and the syntax tree, which
finds what deny and ask rules name in any line. Both see the text alone, never a folder or an environment,
so that a reading holds wherever the same text runs.

Decision: docs/decisions/060-permission-decisions.md
"""

from functools import cached_property

from msgspec import Struct

from clew.permissions.grammar import Unread, is_sure, read_line
from clew.permissions.shell import Script, split
from clew.permissions.wrappers import Everything, open_wrappers

# What bash itself takes for blanks; Python's notion holds more.
BLANKS = " \t\n"


class CommandLine(Struct, frozen=True, dict=True):
    """A line and its readings. Every reading is of exactly this text."""

    command: str

    @cached_property
    def text(self) -> str:
        """The line without the blanks around it."""
        return self.command.strip(BLANKS)

    @cached_property
    def strict(self) -> Script | Unread:
        """The line as the strict grammar reads it, or why it does not."""
        return read_line(self.text)

    @cached_property
    def tree(self) -> Script:
        """The line as the syntax tree has it."""
        return split(self.text)

    @cached_property
    def strict_parts(self) -> Everything:
        """All that the line starts, by the strict grammar, which must have read it."""
        assert not isinstance(self.strict, Unread)
        return open_wrappers(self.strict)

    @cached_property
    def tree_parts(self) -> Everything:
        """All that the line starts, by the syntax tree."""
        return open_wrappers(self.tree)

    @property
    def is_sure(self) -> bool:
        """Whether the line is too plain to be read in two ways."""
        return is_sure(self.text)

    @property
    def parts(self) -> Everything:
        """All that the line starts. The syntax tree costs more than all the rest: a line that can only be
        read in one way does without it."""
        is_plain = self.is_sure and not isinstance(self.strict, Unread)
        return self.strict_parts if is_plain else self.tree_parts


def read_once(line: CommandLine | None, command: str) -> CommandLine:
    """The reading at hand if it is of this very command, else a new one."""
    return line if line is not None and line.command == command else CommandLine(command)
