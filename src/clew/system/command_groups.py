"""Groups of subcommands, such as `clew config` and `clew plugin marketplace`."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from clew.core.messages.errors import ClewError, CommandLineError, describe_error
from clew.core.nearest import find_nearest


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")


class Argument(NamedTuple):
    """An argument of a subcommand: the parameters for one call of `add_argument`."""

    names: tuple[str, ...]
    options: dict[str, Any]


def argument(*names: str, **options: Any) -> Argument:
    return Argument(names, options)


def switch(name: str, help_text: str) -> Argument:
    return Argument((name,), {"action": "store_true", "help": help_text})


class GroupWord:
    """A subcommand of a group: the function to run, its arguments, and its help line."""

    def __init__(
        self,
        run: Callable[..., int | None],
        *takes: Argument | tuple[Argument, ...],
        line: str = "",
    ) -> None:
        self.run = run
        self.takes = takes
        self.line = line


class Group(argparse.ArgumentParser):
    """A parser for a group of subcommands.

    If the subcommand is missing, it reports an error. Error messages are one line and refer to
    the help.
    """

    _is_mixing = False

    def error(self, message: str) -> NoReturn:
        program = " ".join(self.prog.split()[:2])
        self.exit(2, f"{program}: {message} ({self.prog} --help)\n")

    def carry_out(self, argv: list[str], run: Callable[[argparse.Namespace], int | None]) -> int:
        """Parse the arguments, run the subcommand, and return its exit code.

        Errors are reported in one line.
        """
        try:
            return run(self.parse_args(argv)) or 0
        except BrokenPipeError:
            raise  # The reader has closed the pipe, which is not an error; `main` handles it.
        except (ClewError, OSError) as error:
            sys.stderr.write(f"{self.prog}: {describe_error(error)}\n")
            return 2 if isinstance(error, CommandLineError) else 1

    def take(self, word: GroupWord) -> None:
        """Add the arguments of a subcommand. Arguments in a tuple are mutually exclusive."""
        for option in word.takes:
            if isinstance(option, Argument):
                self.add_argument(*option.names, **option.options)
            else:
                apart = self.add_mutually_exclusive_group()
                for choice in option:
                    apart.add_argument(*choice.names, **choice.options)

    def add_words(self, words: Mapping[str, GroupWord]) -> "Group":
        """Add subcommands.

        The parsed options contain the name of the chosen subcommand as `word`, and its function as
        `run`.
        """
        below = self.add_subparsers(dest="word", required=True, metavar="COMMAND")
        for name, word in words.items():
            subparser = below.add_parser(name, help=word.line, description=word.line)
            subparser.take(word)
            subparser.set_defaults(run=word.run)
        return self

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Reject an unknown subcommand, and name the closest match or all subcommands."""
        if not isinstance(action, argparse._SubParsersAction) or value in action.choices:
            super()._check_value(action, value)
            return
        near = find_nearest(value, action.choices)
        hint = f'did you mean "{near}"?' if near else f"expected one of {', '.join(action.choices)}"
        raise argparse.ArgumentError(None, f'unknown command "{value}"; {hint}')

    def parse_known_args(  # type: ignore[override] # the original has equivalent overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        if self._subparsers is not None and args is not None and not args:
            self.exit(2, self.format_help())
        if self._may_mix(args):
            # Otherwise an option before an optional argument hides it: `export ID --format html FILE`.
            self._is_mixing = True
            try:
                return self.parse_known_intermixed_args(args, namespace)
            finally:
                self._is_mixing = False
        return super().parse_known_args(args, namespace)

    def _may_mix(self, args: Sequence[str] | None) -> bool:
        """Return whether options and arguments may be mixed and are not being parsed already."""
        rest = (argparse.PARSER, argparse.REMAINDER)
        is_whole = all(action.nargs not in rest for action in self._get_positional_actions())
        asks_for_help = not {"-h", "--help"}.isdisjoint(args or ())
        return is_whole and not asks_for_help and not self._is_mixing
