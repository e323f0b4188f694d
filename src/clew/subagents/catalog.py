"""The agents a session has, by name: of two definitions the nearer one counts. Pure."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from clew.subagents.builtin import BUILT_IN
from clew.subagents.specs import ORIGINS, Spec


class Catalog:
    """`shadowed` are the definitions that another of the same name stands over."""

    def __init__(self, specs: Iterable[Spec] = ()) -> None:
        self._by_name: dict[str, Spec] = {}
        self.shadowed: list[Spec] = []
        self.add([*BUILT_IN, *specs])

    def __iter__(self) -> Iterator[Spec]:
        return iter(sorted(self._by_name.values(), key=lambda spec: spec.name))

    def add(self, specs: Iterable[Spec]) -> None:
        for spec in sorted(specs, key=lambda spec: ORIGINS.index(spec.origin)):
            before = self._by_name.get(spec.name)
            if before is not None and ORIGINS.index(before.origin) > ORIGINS.index(spec.origin):
                self.shadowed.append(spec)
                continue
            if before is not None:
                self.shadowed.append(before)
            self._by_name[spec.name] = spec

    def remove(self, origin: str) -> None:
        """Takes away what one kind of place defined, and brings back what it stood over."""
        kept = [*self._by_name.values(), *self.shadowed]
        self._by_name, self.shadowed = {}, []
        self.add(spec for spec in kept if spec.origin != origin)

    def find(self, name: str) -> Spec | None:
        """The agent of a name, whatever its case where only one has it."""
        found = self._by_name.get(name)
        if found is not None:
            return found
        near = [spec for spec in self if spec.name.lower() == name.lower()]
        return near[0] if len(near) == 1 else None

    def nearest(self, name: str) -> str | None:
        near = get_close_matches(name, self._by_name, n=1)
        return near[0] if near else None
