"""The slash commands of a session, by name. Open: what else is found (files, servers) is added."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Generic, TypeVar

from msgspec import Struct

from clew.commands.outcome import Outcome

Scene = TypeVar("Scene")


class Command(Struct, Generic[Scene], frozen=True, kw_only=True):
    """`run` is given what the command may look at, and its arguments as they were typed."""

    name: str
    description: str
    run: Callable[[Scene, str], Awaitable[Outcome]]
    # What arguments it takes, as help shows them.
    hint: str = ""
    aliases: tuple[str, ...] = ()
    # Whether it makes sense only where a person goes on typing.
    is_interactive: bool = False
    # Of one that becomes a prompt: whose words it is, as hooks are told.
    expands: str = ""


class Registry(Generic[Scene]):
    """A name that is added again is the later one's; an alias never hides a name."""

    def __init__(self, commands: Iterable[Command[Scene]] = ()) -> None:
        self._by_name: dict[str, Command[Scene]] = {}
        for command in commands:
            self.add(command)

    def add(self, command: Command[Scene]) -> None:
        self._by_name[command.name] = command

    def __iter__(self) -> Iterator[Command[Scene]]:
        return iter(sorted(self._by_name.values(), key=lambda command: command.name))

    def find(self, name: str) -> Command[Scene] | None:
        found = self._by_name.get(name)
        return found or next((c for c in self if name in c.aliases), None)

    def nearest(self, name: str) -> str | None:
        near = get_close_matches(name, self._by_name, n=1)
        return near[0] if near else None
