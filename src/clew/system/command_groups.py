"""Words of the command line that stand for a group of others: `clew config`, `clew plugin marketplace`."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from clew.core.messages.errors import ClewError, CommandLineError, describe_error


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")


class Argument(NamedTuple):
    """What `add_argument` is given."""

    names: tuple[str, ...]
    options: dict[str, Any]


def argument(*names: str, **options: Any) -> Argument:
    return Argument(names, options)


def switch(name: str, help_text: str) -> Argument:
    return Argument((name,), {"action": "store_true", "help": help_text})


class GroupWord:
    """One word of a group: what runs, what it takes, and the line that help has for it."""

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
    """Said alone, a group lists its words instead of asking for one; that is still no success. What
    cannot be understood is one line, which names where to read on."""

    def error(self, message: str) -> NoReturn:
        program = " ".join(self.prog.split()[:2])
        self.exit(2, f"{program}: {message} ({self.prog} --help)\n")

    def carry_out(self, argv: list[str], run: Callable[[argparse.Namespace], int | None]) -> int:
        """Does what the words say: what cannot be done is one line, and an exit code."""
        try:
            return run(self.parse_args(argv)) or 0
        except BrokenPipeError:
            raise  # whoever read us has seen enough, which is no failure: the door knows
        except (ClewError, OSError) as error:
            sys.stderr.write(f"{self.prog}: {describe_error(error)}\n")
            return 2 if isinstance(error, CommandLineError) else 1

    def take(self, word: GroupWord) -> None:
        """Add what a word takes; arguments in a tuple of their own exclude each other."""
        for option in word.takes:
            if isinstance(option, Argument):
                self.add_argument(*option.names, **option.options)
            else:
                apart = self.add_mutually_exclusive_group()
                for choice in option:
                    apart.add_argument(*choice.names, **choice.options)

    def add_words(self, words: Mapping[str, GroupWord]) -> "Group":
        """Add a word for each; the parsed options hold its `run` and its name as `word`."""
        below = self.add_subparsers(dest="word", required=True, metavar="COMMAND")
        for name, word in words.items():
            subparser = below.add_parser(name, help=word.line, description=word.line)
            subparser.take(word)
            subparser.set_defaults(run=word.run)
        return self

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """A word that the group has not: what is near it, or all there are."""
        if not isinstance(action, argparse._SubParsersAction) or value in action.choices:
            super()._check_value(action, value)
            return
        from difflib import get_close_matches

        near = get_close_matches(value, action.choices, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there is {', '.join(action.choices)}"
        raise argparse.ArgumentError(None, f"no word {value!r}; {hint}")

    def parse_known_args(  # type: ignore[override] # theirs has overloads that come to this
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        if self._subparsers is not None and args is not None and not args:
            self.exit(2, self.format_help())
        return super().parse_known_args(args, namespace)
